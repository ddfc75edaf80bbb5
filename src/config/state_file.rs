//! The file in which changes made at run time outlive the program.
//!
//! It is written as a whole beside its place, put on the disk, and then moved there: whoever reads
//! it finds the old changes or the new ones. One that cannot be understood was not written by this
//! program, and is neither ignored nor overwritten: a backend that was taken out for a reason must
//! not come back because of a stray file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use super::problem::{Complaint, quote};
use super::{Amendments, LoadError};

/// The changes that were kept; none when there is no file yet.
///
/// # Errors
///
/// It cannot be read, or is no file of changes, or one of a later version.
pub fn load(path: &Path) -> Result<Amendments, LoadError> {
    let bytes = match read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Amendments::default()),
        Err(error) => return Err(unfit(path, &format!("cannot be read: {error}"))),
    };
    let kept: Kept = serde_json::from_slice(&bytes)
        .map_err(|error| unfit(path, &format!("is no state file of evenkeel: {error}")))?;
    match kept {
        Kept { evenkeel_state: VERSION, amendments } => Ok(amendments),
        Kept { evenkeel_state: version, .. } => {
            Err(unfit(path, &format!("is of version {version}, which this program does not know")))
        }
    }
}

/// Keeps these changes instead of those before them.
///
/// # Errors
///
/// When they could not be put on the disk. Those before them are there then.
pub fn save(path: &Path, amendments: &Amendments) -> io::Result<()> {
    let kept = Kept { evenkeel_state: VERSION, amendments: amendments.clone() };
    let mut text = serde_json::to_vec_pretty(&kept)?;
    text.push(b'\n');
    let beside = beside(path);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let moved = file
        .write_all(&text)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, path));
    if moved.is_err() {
        // What is left of it is of no use to anybody.
        let _ = fs::remove_file(&beside);
    }
    moved?;
    File::open(folder(path))?.sync_all()
}

/// What will keep [`save`] from its work, as far as that can be known before.
#[must_use]
pub fn obstacle(path: &Path) -> Option<Complaint> {
    let error = access(folder(path), Access::WRITE_OK | Access::EXEC_OK).err()?;
    let written = quote(&path.display().to_string());
    let message =
        format!("changes made at run time cannot be kept in {written}: {}", io::Error::from(error));
    Some(Complaint::new(message, "make its folder, and let this user write to it"))
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// The version of all the rest.
    evenkeel_state: u32,
    #[serde(flatten)]
    amendments: Amendments,
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for somebody to write to it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    Ok(bytes)
}

fn unfit(path: &Path, why: &str) -> LoadError {
    let path = path.display();
    LoadError::Unfit(format!(
        "{path}: the state file {why}; move it away to go on with what the configuration says, or \
         name another with `state_file`\n"
    ))
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

const VERSION: u32 = 1;
/// In bytes; a hundred thousand changes take half of it.
const LARGEST: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BackendAddress, Wanted};
    use std::os::unix::fs::PermissionsExt;

    fn some() -> Amendments {
        let mut amendments = Amendments::default();
        let address: BackendAddress = "unix:/a \"b\"".parse().unwrap();
        amendments.add("web", "127.0.0.1:5004,weight=3,backup".parse().unwrap());
        amendments.set_state("web", &address, Wanted::Maintenance);
        amendments.set_weight("other", &address, 0);
        amendments.remove("other", &"gone.example:1".parse().unwrap());
        amendments
    }

    #[test]
    fn what_is_kept_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        assert_eq!(load(&path), Ok(Amendments::default()));
        for amendments in [some(), Amendments::default(), some()] {
            save(&path, &amendments).unwrap();
            assert_eq!(load(&path), Ok(amendments));
        }
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_was_left_half_written_is_in_nobodys_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        save(&path, &some()).unwrap();
        fs::write(beside(&path), "{").unwrap();
        assert_eq!(load(&path), Ok(some()));
        save(&path, &Amendments::default()).unwrap();
        assert_eq!(load(&path), Ok(Amendments::default()));
    }

    #[test]
    fn what_cannot_be_kept_leaves_what_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        save(&path, &some()).unwrap();
        // Something that cannot be replaced by a file.
        fs::create_dir(beside(&path)).unwrap();
        assert!(save(&path, &Amendments::default()).is_err());
        assert_eq!(load(&path), Ok(some()));
        let nowhere = folder.path().join("no/state");
        assert!(save(&nowhere, &some()).is_err());
        let complaint = obstacle(&nowhere).unwrap().to_string();
        assert!(complaint.contains("No such file") && complaint.contains("make its folder"));
        assert_eq!(obstacle(&path), None);
        assert_eq!(obstacle(Path::new("state")), None, "the folder we are in");
    }

    #[test]
    fn a_stray_file_is_refused_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        for (text, why) in [
            ("", "is no state file of evenkeel: EOF"),
            ("# state\n", "is no state file of evenkeel: expected"),
            ("{}", "missing field `evenkeel_state`"),
            ("{\"evenkeel_state\":1}", "missing field `pools`"),
            ("{\"evenkeel_state\":2,\"pools\":{}}", "is of version 2, which this program"),
            ("{\"evenkeel_state\":1,\"pools\":{\"a\":[{\"address\":\"x\"}]}}", "has no port"),
            ("[]", "invalid type: sequence"),
        ] {
            fs::write(&path, text).unwrap();
            let message = load(&path).unwrap_err().to_string();
            assert!(message.contains(why) && message.contains("move it away"), "{message}");
            assert!(message.starts_with(&format!("{}: the state file", path.display())));
            assert_eq!(fs::read(&path).unwrap(), text.as_bytes(), "it is left as it is");
        }
        let file = File::create(&path).unwrap();
        file.set_len(LARGEST + 1).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("larger than 16 MiB"));
        let message = load(folder.path()).unwrap_err().to_string();
        assert!(message.contains("no regular file"), "{message}");
    }
}
