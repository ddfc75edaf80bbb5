//! Bulk data with the real binary: copied or through kernel pipes, it arrives; pipes come back.
//!
//! That a stream is spliced shows in the daemon's descriptors: while its reader is stalled, the
//! pipe that holds its bytes is open.

#![expect(clippy::unwrap_used, reason = "a helper fails the test that called it")]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, getuid};
use socket2::SockRef;
use support::backend::{Backend, Guests};
use support::client::{Ending, connect, read_end, read_text, reset};
use support::daemon::{Daemon, Setup, program};
use support::noise::{Digest, Noise};
use support::wait_until;

#[test]
fn spliced_streams_arrive_whole_both_ways_at_once() {
    let mut scene = Scene::new("splice = true");
    scene.exchange(LARGE);
    assert!(scene.pipes() > 0, "nothing went through a pipe");
}

#[test]
fn copied_streams_arrive_whole_both_ways_at_once() {
    let mut scene = Scene::new("splice = false");
    scene.exchange(LARGE);
    assert_eq!(scene.pipes(), 0, "a pipe was made for nothing");
}

/// Thirty clients that stop reading while the server would go on for ever, then thirty that are
/// idle: what waits is bounded, and of the pipes a few are kept.
#[test]
fn stalled_readers_cost_bounded_memory_and_their_pipes_come_back() {
    const CLIENTS: usize = 30;
    let backend = pouring();
    let daemon = &mut Setup::new(&[backend.address]).start();
    let address = daemon.address();
    let (memory, sockets, pipes) =
        (daemon.memory(), daemon.descriptors_of("socket"), daemon.descriptors_of("pipe"));
    let stalled: Vec<TcpStream> = (0..CLIENTS).map(|_| stalled_client(address)).collect();
    wait_until("most streams are in pipes", || daemon.descriptors_of("pipe") > pipes + CLIENTS);
    let most = daemon.descriptors_of("pipe") - pipes;
    assert!(most <= 2 * CLIENTS, "{most} ends of pipes for {CLIENTS} streams");
    let grown = daemon.memory().saturating_sub(memory);
    assert!(grown < 8 * 1024, "{grown} KiB more for {CLIENTS} stalled streams");
    drop(stalled);
    wait_until("the sockets are closed", || daemon.descriptors_of("socket") == sockets);
    let mut idle: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(address)).collect();
    for client in &mut idle {
        client.write_all(b"i").unwrap();
        assert_eq!(read_text(client, 1), "i");
    }
    assert_eq!(daemon.descriptors_of("socket"), sockets + 2 * CLIENTS);
    let kept = daemon.descriptors_of("pipe") - pipes;
    assert!(kept <= 2 * KEPT, "{kept} ends of pipes with nothing to carry");
}

#[test]
fn a_reset_by_the_server_reaches_the_client_of_a_spliced_stream() {
    let mut scene = Scene::new("splice = true");
    let (mut client, server, sent) = scene.stalled_pair();
    reset(server);
    let (got, ending) = read_end(&mut client);
    assert_eq!(ending, Ending::Reset, "a cut stream does not look complete");
    assert!(got.len() > READ_FIRST / 2 && got.len() <= sent.len() - READ_FIRST);
    let part = &sent[READ_FIRST..READ_FIRST + got.len()];
    assert_eq!(Digest::of(&got), Digest::of(part), "what came is what was sent");
    scene.is_as_before();
}

#[test]
fn a_reset_by_the_client_reaches_the_server_of_a_spliced_stream() {
    let mut scene = Scene::new("splice = true");
    let (client, mut server, _) = scene.stalled_pair();
    reset(client);
    assert_eq!(read_end(&mut server), (Vec::new(), Ending::Reset));
    scene.is_as_before();
}

/// The server's end waits behind the bytes in the pipe; the other direction goes on meanwhile.
#[test]
fn a_half_closed_spliced_stream_is_delivered_to_its_last_byte() {
    let mut scene = Scene::new("splice = true");
    let (mut client, mut server, sent) = scene.stalled_pair();
    server.shutdown(Shutdown::Write).unwrap();
    for _ in 0..3 {
        client.write_all(b"still here").unwrap();
        assert_eq!(read_text(&mut server, 10), "still here");
    }
    let (got, ending) = read_end(&mut client);
    assert_eq!(ending, Ending::Orderly);
    assert_eq!(Digest::of(&got), Digest::of(&sent[READ_FIRST..]));
    drop(client);
    assert_eq!(read_end(&mut server), (Vec::new(), Ending::Orderly));
    scene.is_as_before();
}

/// An ordinary user may have so many pages in pipes; what comes after gets pipes too small to be of
/// use. One daemon takes them all, another of the same user copies, and splices once there are
/// some again.
#[test]
fn a_user_who_is_out_of_pipe_pages_gets_every_byte() {
    let pages = std::fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").unwrap();
    let pages: usize = pages.trim().parse().unwrap();
    let fitting = pages / PAGES_OF_A_PIPE;
    let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    assert!(
        (1..=100).contains(&fitting) && descriptors > 100 * 64,
        "needs fs.pipe-user-pages-soft of 256 to 25600, and 6400 descriptors: {pages} pages, \
         {descriptors} descriptors"
    );
    let folder = Ordinary::new();
    let pouring = pouring();
    let mut greedy = folder.daemon(pouring.address);
    let (address, before) = (greedy.address(), greedy.descriptors_of("pipe"));
    let mut stalled = Vec::new();
    while greedy.descriptors_of("pipe") < before + 2 * fitting {
        assert!(stalled.len() < 4 * fitting, "no pipe for some of {} streams", stalled.len());
        stalled.push(stalled_client(address));
    }
    let (backend, guests) = Backend::handing_over();
    let daemon = folder.daemon(backend.address);
    let pipes = daemon.descriptors_of("pipe");
    let mut scene = Scene { daemon, guests, _backend: backend, pipes, sockets: 0 };
    scene.exchange(MIDDLING);
    assert_eq!(scene.pipes(), 0, "it is out of pages");
    assert_eq!(scene.daemon.count("WARN"), 0, "nothing to warn of");
    drop(stalled);
    wait_until("a pipe is made again", || {
        scene.exchange(MIDDLING);
        scene.pipes() > 0
    });
}

/// A balancer before a backend that the test plays itself.
struct Scene {
    daemon: Daemon,
    guests: Guests,
    _backend: Backend,
    /// Descriptors when nobody had connected yet.
    pipes: usize,
    sockets: usize,
}

impl Scene {
    fn new(splice: &str) -> Self {
        let (backend, guests) = Backend::handing_over();
        let daemon = Setup::new(&[backend.address]).listener(splice).start();
        let (pipes, sockets) = (daemon.descriptors_of("pipe"), daemon.descriptors_of("socket"));
        Self { daemon, guests, _backend: backend, pipes, sockets }
    }

    fn pair(&mut self) -> (TcpStream, TcpStream) {
        let client = connect(self.daemon.address());
        (client, self.guests.next())
    }

    /// Sends so much each way at once.
    fn exchange(&mut self, size: usize) {
        let (client, server) = self.pair();
        let ends = [(client, 3), (server, 4)].map(|(stream, seed)| {
            let mut writing = stream.try_clone().unwrap();
            let writer = thread::spawn(move || {
                let digest = Noise::new(seed).pour(size, &mut writing);
                writing.shutdown(Shutdown::Write).unwrap();
                digest
            });
            let mut reading = stream;
            (writer, thread::spawn(move || Digest::drain(&mut reading)))
        });
        let [(up, up_end), (down, down_end)] =
            ends.map(|(writer, reader)| (writer.join().unwrap(), reader.join().unwrap()));
        assert_eq!(down_end, up, "what the client sent, the server got");
        assert_eq!(up_end, down, "what the server sent, the client got");
    }

    /// A stream that is spliced and full: its client has read a little and stopped. Also what the
    /// server could send.
    fn stalled_pair(&mut self) -> (TcpStream, TcpStream, Vec<u8>) {
        let (mut client, mut server) = self.pair();
        let reading = thread::spawn(move || {
            client.read_exact(&mut vec![0; READ_FIRST]).unwrap();
            client
        });
        let sent = stuff(&mut server);
        let client = reading.join().unwrap();
        wait_until("its bytes are in a pipe", || self.pipes() == 2);
        (client, server, sent)
    }

    /// Ends of pipes that are open.
    fn pipes(&self) -> usize {
        self.daemon.descriptors_of("pipe") - self.pipes
    }

    /// Waits until nothing is left of the connection; one pipe may be kept.
    fn is_as_before(&mut self) {
        let Self { daemon, sockets, .. } = self;
        wait_until("the sockets are closed", || daemon.descriptors_of("socket") == *sockets);
        assert!(self.pipes() <= 2, "{} ends of pipes are left", self.pipes());
        let (mut client, mut server) = self.pair();
        client.write_all(b"next").unwrap();
        assert_eq!(read_text(&mut server, 4), "next", "it goes on");
    }
}

/// Writes until nobody takes anything any more; returns what was taken.
fn stuff(stream: &mut TcpStream) -> Vec<u8> {
    let patience = stream.write_timeout().unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let (mut noise, mut sent, mut taken) = (Noise::new(6), Vec::new(), 0);
    let error = loop {
        if taken == sent.len() {
            assert!(taken < MOST_STUFFED, "buffers without a limit");
            sent.extend(noise.take(1 << 20));
        }
        match stream.write(&sent[taken..]) {
            Ok(count) => taken += count,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    stream.set_write_timeout(patience).unwrap();
    sent.truncate(taken);
    sent
}

/// Sends without end, in little buffers; a client that speaks gets its own words back instead.
fn pouring() -> Backend {
    Backend::new(|mut stream| {
        let mut kind = [0];
        if stream.read_exact(&mut kind).is_err() {
            return;
        }
        if &kind == b"P" {
            SockRef::from(&stream).set_send_buffer_size(64 * 1024).unwrap();
            let piece = vec![7; 256 * 1024];
            stream.set_write_timeout(None).unwrap();
            while stream.write_all(&piece).is_ok() {}
        } else {
            // The client may leave without waiting for it.
            let _ = stream.write_all(&kind);
            support::backend::greet("", stream);
        }
    })
}

/// A client that stops reading when its stream is in full flow.
fn stalled_client(address: SocketAddr) -> TcpStream {
    let mut client = connect(address);
    SockRef::from(&client).set_recv_buffer_size(64 * 1024).unwrap();
    client.write_all(b"P").unwrap();
    client.read_exact(&mut vec![0; READ_FIRST]).unwrap();
    client
}

/// A user without privileges, and a copy of the program that they may run.
struct Ordinary {
    folder: tempfile::TempDir,
    user: Option<u32>,
}

impl Ordinary {
    /// A user of this test run alone, so that nobody else's pipes are counted; without root, the
    /// one who runs the test.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::copy(program().get_program(), folder.path().join("evenkeel")).unwrap();
        let user = getuid().is_root().then(|| 60_000 + std::process::id() % 5_000);
        Self { folder, user }
    }

    fn daemon(&self, backend: SocketAddr) -> Daemon {
        let path = self.folder.path().join("evenkeel");
        let mut command = match self.user {
            Some(user) => {
                let mut command = Command::new("setpriv");
                let (user, group) = (format!("--reuid={user}"), format!("--regid={user}"));
                command.args([&user, &group, "--clear-groups", "--"]).arg(path);
                command
            }
            None => Command::new(path),
        };
        let file = self.folder.path().join(format!("{}.toml", backend.port()));
        std::fs::write(&file, Setup::new(&[backend]).text()).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        command.args(["run", "-c"]).arg(file).env_remove("RUST_LOG");
        Daemon::spawn(command).ready()
    }
}

const LARGE: usize = 64 << 20;
const MIDDLING: usize = 8 << 20;
/// What a client reads before it stops: some full reads of the balancer.
const READ_FIRST: usize = 1 << 20;
/// More than all buffers on the way can hold.
const MOST_STUFFED: usize = 96 << 20;
/// Pages in the largest pipe that the balancer asks for.
const PAGES_OF_A_PIPE: usize = 256;
/// Pipes that are kept with nothing to carry.
const KEPT: usize = 16;
