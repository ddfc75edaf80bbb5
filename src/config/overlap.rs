//! How two addresses relate: the same, in each other's way, or one leading to the other.
//!
//! Only what is certain from the text counts, because every "yes" here refuses a configuration.
//! A name other than `localhost` may mean anything, so it equals itself and nothing else.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::address::{BackendAddress, BindAddress};

/// Equal for all spellings of one backend: letter case, a final dot, IPv4 written as IPv6.
pub(super) fn identity(address: &BackendAddress) -> String {
    match address {
        BackendAddress::Inet(address) => {
            let One { ip, scope } = One::new(*address);
            format!("{ip}%{scope}:{}", address.port())
        }
        BackendAddress::Name { host, port } => format!("{}:{port}", canonical_host(host)),
        BackendAddress::Unix(path) => {
            let path: std::path::PathBuf = path.components().collect();
            format!("unix:{}", path.display())
        }
    }
}

/// Whether the two cannot both be bound; port 0 takes any free port and is in nobody's way.
pub(super) fn clash(a: &BindAddress, b: &BindAddress) -> bool {
    if let (BindAddress::Unix(a), BindAddress::Unix(b)) = (a, b) {
        return a.components().eq(b.components());
    }
    if a.port() != b.port() || a.port() == Some(0) {
        return false;
    }
    if let (BindAddress::Name { host: a, .. }, BindAddress::Name { host: b, .. }) = (a, b) {
        return canonical_host(a) == canonical_host(b);
    }
    let (ours, theirs) = (reach(a), reach(b));
    ours.iter().any(|a| theirs.iter().any(|b| a.meets(b)))
}

/// Whether a connection to `backend` would be accepted by `bind`, so that it runs in a circle.
pub(super) fn accepts(bind: &BindAddress, backend: &BackendAddress) -> bool {
    if let (BindAddress::Unix(bind), BackendAddress::Unix(backend)) = (bind, backend) {
        return bind.components().eq(backend.components());
    }
    if bind.port() != backend.port() {
        return false;
    }
    let targets = match backend {
        BackendAddress::Inet(address) => vec![One::new(*address).as_target()],
        BackendAddress::Name { host, .. } if is_localhost(host) => LOOPBACKS.to_vec(),
        BackendAddress::Name { host: target, .. } => match bind {
            BindAddress::Name { host, .. } => {
                return canonical_host(host) == canonical_host(target);
            }
            BindAddress::Inet(_) | BindAddress::Any(_) | BindAddress::Unix(_) => return false,
        },
        BackendAddress::Unix(_) => return false,
    };
    let arrives = |reach: &Reach, target: &One| match reach {
        Reach::Everything => target.ip.is_loopback(),
        Reach::AllV4 => target.ip.is_loopback() && target.ip.is_ipv4(),
        Reach::One(bound) => bound == target,
        Reach::Unknown => false,
    };
    let reach = reach(bind);
    reach.iter().any(|r| targets.iter().any(|t| arrives(r, t)))
}

/// One IP address; link-local ones differ by interface. IPv4 in IPv6 counts as IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct One {
    ip: IpAddr,
    scope: u32,
}

impl One {
    fn new(address: SocketAddr) -> Self {
        let scope = match address {
            SocketAddr::V6(address) => address.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        let ip = address.ip().to_canonical();
        Self { ip, scope }
    }

    /// Linux connects to the loopback address when asked for the unspecified one.
    fn as_target(self) -> Self {
        match self.ip {
            IpAddr::V4(ip) if ip.is_unspecified() => LOOPBACKS[0],
            IpAddr::V6(ip) if ip.is_unspecified() => LOOPBACKS[1],
            IpAddr::V4(_) | IpAddr::V6(_) => self,
        }
    }
}

/// What binding an address occupies, apart from the port.
enum Reach {
    Everything,
    AllV4,
    One(One),
    /// A name nobody has resolved yet.
    Unknown,
}

impl Reach {
    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Everything, _) | (_, Self::Everything) => true,
            (Self::Unknown, _) | (_, Self::Unknown) => false,
            (Self::AllV4, Self::AllV4) => true,
            (Self::AllV4, Self::One(one)) | (Self::One(one), Self::AllV4) => one.ip.is_ipv4(),
            (Self::One(a), Self::One(b)) => a == b,
        }
    }
}

fn reach(bind: &BindAddress) -> Vec<Reach> {
    match bind {
        BindAddress::Any(_) => vec![Reach::Everything],
        BindAddress::Inet(address) => {
            let one = One::new(*address);
            vec![match one.ip {
                IpAddr::V6(ip) if ip.is_unspecified() => Reach::Everything,
                IpAddr::V4(ip) if ip.is_unspecified() => Reach::AllV4,
                IpAddr::V4(_) | IpAddr::V6(_) => Reach::One(one),
            }]
        }
        BindAddress::Name { host, .. } if is_localhost(host) => {
            LOOPBACKS.into_iter().map(Reach::One).collect()
        }
        BindAddress::Name { .. } => vec![Reach::Unknown],
        BindAddress::Unix(_) => Vec::new(),
    }
}

fn canonical_host(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

pub(super) fn is_localhost(host: &str) -> bool {
    canonical_host(host) == "localhost"
}

const LOOPBACKS: [One; 2] = [
    One { ip: IpAddr::V4(Ipv4Addr::LOCALHOST), scope: 0 },
    One { ip: IpAddr::V6(Ipv6Addr::LOCALHOST), scope: 0 },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(text: &str) -> BindAddress {
        text.parse().expect(text)
    }

    fn backend(text: &str) -> BackendAddress {
        text.parse().expect(text)
    }

    #[test]
    fn addresses_in_each_others_way() {
        for (a, b, expected) in [
            (":3030", ":3030", true),
            (":3030", ":3031", false),
            (":0", ":0", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            (":3030", "127.0.0.1:3030", true),
            (":3030", "[fe80::1%2]:3030", true),
            (":3030", "web.example:3030", true),
            (":3030", "unix:/x", false),
            ("0.0.0.0:3030", "127.0.0.1:3030", true),
            ("0.0.0.0:3030", "[::1]:3030", false),
            ("0.0.0.0:3030", "[::]:3030", true),
            ("0.0.0.0:3030", "localhost:3030", true),
            ("0.0.0.0:3030", "web.example:3030", false),
            ("[::]:3030", "127.0.0.1:3030", true),
            ("[::]:3030", "[::1]:3030", true),
            ("127.0.0.1:3030", "127.0.0.1:3030", true),
            ("127.0.0.1:3030", "127.0.0.2:3030", false),
            ("127.0.0.1:3030", "[::ffff:127.0.0.1]:3030", true),
            ("[fe80::1%2]:3030", "[fe80::1%3]:3030", false),
            ("localhost:3030", "127.0.0.1:3030", true),
            ("localhost:3030", "[::1]:3030", true),
            ("localhost:3030", "127.0.0.2:3030", false),
            ("Web.Example:3030", "web.example.:3030", true),
            ("web.example:3030", "api.example:3030", false),
            ("unix:/run/x", "unix:/run//x", true),
            ("unix:/run/x", "unix:/run/y", false),
        ] {
            assert_eq!(clash(&bind(a), &bind(b)), expected, "{a} {b}");
            assert_eq!(clash(&bind(b), &bind(a)), expected, "{b} {a}");
        }
    }

    #[test]
    fn connections_that_would_come_back() {
        for (listen, target, expected) in [
            ("127.0.0.1:3030", "127.0.0.1:3030", true),
            ("127.0.0.1:3030", "127.0.0.1:3031", false),
            ("127.0.0.1:3030", "127.0.0.2:3030", false),
            ("127.0.0.1:3030", "0.0.0.0:3030", true),
            ("192.0.2.1:3030", "0.0.0.0:3030", false),
            ("127.0.0.1:3030", "localhost:3030", true),
            ("192.0.2.1:3030", "localhost:3030", false),
            (":3030", "localhost:3030", true),
            (":3030", "127.5.0.1:3030", true),
            (":3030", "[::1]:3030", true),
            (":3030", "192.0.2.1:3030", false),
            (":3030", "db.example:3030", false),
            ("0.0.0.0:3030", "127.0.0.1:3030", true),
            ("0.0.0.0:3030", "[::1]:3030", false),
            ("0.0.0.0:3030", "192.0.2.1:3030", false),
            ("[::]:3030", "127.0.0.1:3030", true),
            ("localhost:3030", "[::1]:3030", true),
            ("db.example:3030", "DB.example:3030", true),
            ("db.example:3030", "127.0.0.1:3030", false),
            ("unix:/run/x", "unix:/run/./x", true),
            ("unix:/run/x", "127.0.0.1:3030", false),
            (":3030", "unix:/run/x", false),
            (":0", "127.0.0.1:3030", false),
        ] {
            let came_back = accepts(&bind(listen), &backend(target));
            assert_eq!(came_back, expected, "{listen} {target}");
        }
    }

    #[test]
    fn spellings_of_one_backend_are_one() {
        for (a, b, expected) in [
            ("127.0.0.1:80", "[::ffff:127.0.0.1]:80", true),
            ("Db.example:80", "db.example.:80", true),
            ("unix:/a/b", "unix:/a//b", true),
            ("127.0.0.1:80", "localhost:80", false),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("[fe80::1%1]:80", "[fe80::1%2]:80", false),
        ] {
            let same = identity(&backend(a)) == identity(&backend(b));
            assert_eq!(same, expected, "{a} {b}");
        }
    }
}
