//! The command line from outside: exit codes, and a file with several listeners and pools.

mod support;

use support::backend::Backend;
use support::client::ask;
use support::daemon::{Daemon, Setup, config_file, program};
use support::ports::Port;

fn failing(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = program();
    command.args(arguments);
    let mut daemon = Daemon::spawn(command);
    let code = daemon.exit_code();
    (code, daemon.log().join("\n"))
}

#[test]
fn usage_errors_exit_with_two_and_name_the_culprit() {
    let cases: [(&[&str], &str); 8] = [
        (&[], "Usage"),
        (&["rum"], "rum"),
        (&["run"], "BACKEND"),
        (&["run", "--nonsense", "127.0.0.1:1"], "--nonsense"),
        (&["run", "127.0.0.1:65536"], "127.0.0.1:65536"),
        (&["run", "127.0.0.1"], "127.0.0.1"),
        (&["run", "-c", "file", "127.0.0.1:1"], "--config"),
        (&["backend", "--delay", "5"], "--delay"),
    ];
    for (arguments, culprit) in cases {
        let (code, said) = failing(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains(culprit), "{arguments:?}: {said}");
    }
}

#[test]
fn help_and_version_are_no_errors() {
    for argument in ["--help", "--version"] {
        let output = program().arg(argument).stdout(std::process::Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8_lossy(&output.stdout).contains("evenkeel"));
    }
}

#[test]
fn completions_and_the_manual_go_to_standard_output() {
    for (arguments, begin) in [
        (&["completions", "bash"][..], "_evenkeel()"),
        (&["completions", "zsh"], "#compdef evenkeel"),
        (&["completions", "fish"], "# Print an optspec"),
        (&["man"], ".ie \\n(.g"),
    ] {
        let output = program().args(arguments).stdout(std::process::Stdio::piped()).output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0));
        assert!(text.starts_with(begin), "{arguments:?}: {text:.200}");
    }
    let (code, said) = failing(&["completions", "tcsh"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("bash, elvish, fish, powershell, zsh"), "{said}");
}

#[test]
fn a_bad_file_exits_with_three_and_points_at_every_problem() {
    let text =
        Setup::listing("\"127.0.0.1:5001\"").listener("idle_timeout = 5\nnonsense = 1").text();
    let file = config_file(&text);
    let (code, said) = failing(&["run", "-c", file.path().to_str().unwrap()]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("idle_timeout = 5") && said.contains("nonsense = 1"), "{said}");
    let missing = file.path().with_extension("missing");
    let (code, said) = failing(&["run", "-c", missing.to_str().unwrap()]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("missing"), "{said}");
}

#[test]
fn an_address_in_use_exits_with_four_and_starts_nothing() {
    let taken = Port::reserve();
    let _listener = taken.listen();
    let address = taken.address.to_string();
    let (code, said) = failing(&["run", "-l", "127.0.0.1:0", "-l", &address, "127.0.0.1:1"]);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains(&format!("cannot listen on {address}")), "{said}");
    assert!(!said.contains("listening on 127"), "nothing is announced before all is bound: {said}");
}

#[test]
fn several_listeners_lead_to_their_own_pools() {
    let [a, b, c] = ["a", "b", "c"].map(Backend::named);
    let mut daemon = Daemon::configured(&format!(
        "[listener.one]\nbind = [\"127.0.0.1:0\", \"[::1]:0\"]\n\
         [listener.two]\nbind = [\"127.0.0.1:0\"]\n\
         [listener.also_two]\nbind = [\"127.0.0.1:0\"]\npool = \"two\"\n\
         [pool.one]\nbackends = [\"{}\"]\n[pool.one.health]\ntype = \"none\"\n\
         [pool.two]\nbackends = [\"{}\", {{ address = \"{}\", weight = 2 }}]\n\
         [pool.two.health]\ntype = \"tcp\"\n",
        a.address, b.address, c.address
    ));
    let one = daemon.address_of("on 127.0.0.1:");
    assert_eq!(ask(one, "1") + &ask(one, "2"), "a1a2");
    assert_eq!(ask(daemon.address_of("on [::1]:"), ""), "a");
    let two = daemon.address_of("(listener two -> pool two)");
    let also = daemon.address_of("(listener also_two -> pool two)");
    let served: String = [two, also, two, also, two, also].map(|address| ask(address, "")).concat();
    assert_eq!(served, "cbccbc", "two listeners share the turns of one pool");
}

#[test]
fn several_addresses_on_the_command_line_share_the_turns() {
    let [a, b] = ["a", "b"].map(Backend::named);
    let backends = [a.address, b.address].map(|address| address.to_string());
    let listen = ["run", "-l", "127.0.0.1:0", "-l", "[::1]:0", &backends[0], &backends[1]];
    let mut daemon = Daemon::start(&listen);
    let (four, six) = (daemon.address_of("on 127.0.0.1:"), daemon.address_of("on [::1]:"));
    assert_eq!([four, six, six, four].map(|address| ask(address, "")).concat(), "abab");
}
