//! The hosts under which the inspector answers, and the origins that may change timers.
//!
//! A page of another site can have its own name resolve to this server (DNS rebinding). The browser then takes both for
//! one origin, and only the `Host` header reveals the page: it still carries the foreign name. So a request is served
//! only if it names an allowed host, and a request that may change a timer must come from the inspector's own page.
//!
//! Only the authority of the request target and `Host` count. `Forwarded`, `X-Forwarded-Host` and the like are never
//! read: a page can send them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use actix_web::HttpRequest;
use actix_web::http::{Method, header};

use super::error::Rejection;

/// The error of a text given to [`Inspector::allow_host`](super::Inspector::allow_host) that is not a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a host: write a name or an address, `timers.example.org` or `[2001:db8::1]`, and a port if need be"
)]
pub struct InvalidHost(String);

/// Maximum length of a host name.
const MAX_NAME_LEN: usize = 253;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Address(IpAddr),
    /// In lower case, without the trailing dot.
    Name(String),
}

/// A host with an optional port; all spellings of one are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Authority {
    host: Host,
    port: Option<u16>,
}

/// The error of a text that is not a host with an optional port.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotAnAuthority;

impl FromStr for Authority {
    type Err = NotAnAuthority;

    /// Parses `uri-host [ ":" port ]` of RFC 9110 without percent-encoding and user information.
    fn from_str(text: &str) -> Result<Self, NotAnAuthority> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']').ok_or(NotAnAuthority)?;
                let address: Ipv6Addr = address.parse().map_err(|_| NotAnAuthority)?;
                let port = if port.is_empty() { "" } else { port.strip_prefix(':').ok_or(NotAnAuthority)? };
                (Host::Address(IpAddr::V6(address).to_canonical()), port)
            }
            None => {
                let (name, port) = text.split_once(':').unwrap_or((text, ""));
                (Host::from_name(name)?, port)
            }
        };
        Ok(Self { host, port: port_of(port)? })
    }
}

fn port_of(digits: &str) -> Result<Option<u16>, NotAnAuthority> {
    if digits.is_empty() {
        return Ok(None);
    }
    let port = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
    port.map(Some).ok_or(NotAnAuthority)
}

impl Host {
    fn from_name(name: &str) -> Result<Self, NotAnAuthority> {
        let name = name.strip_suffix('.').unwrap_or(name);
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        let is_label = |label: &str| {
            !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        // `127.1`, `0x7f.1` and `2130706433` are addresses to a resolver. Browsers never send these forms.
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_number =
            last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x") || last.starts_with("0X");
        if name.len() > MAX_NAME_LEN || is_number || !name.split('.').all(is_label) {
            return Err(NotAnAuthority);
        }
        Ok(Self::Name(name.to_ascii_lowercase()))
    }

    fn is_loopback(&self) -> bool {
        match self {
            Self::Address(address) => address.is_loopback(),
            Self::Name(name) => name == "localhost",
        }
    }
}

/// The allowed hosts beside loopback.
#[derive(Debug, Clone, Default)]
pub(super) struct AllowedHosts(Vec<Authority>);

impl AllowedHosts {
    pub(super) fn add(&mut self, host: &str) -> Result<(), InvalidHost> {
        self.0.push(host.parse().map_err(|_| InvalidHost(host.to_owned()))?);
        Ok(())
    }

    /// Checks the host of a request and, if the request may change a timer, its origin.
    pub(super) fn check(&self, request: &HttpRequest) -> Result<(), Rejection> {
        let authority = self.check_host(request)?;
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            return Ok(());
        }
        self.check_origin(request, &authority)
    }

    /// Checks the authority of a request: in its target (HTTP/2, or an absolute URL), else in `Host`. If there are
    /// several, all must be allowed.
    fn check_host(&self, request: &HttpRequest) -> Result<Authority, Rejection> {
        let listening = request.app_config().local_addr().ip().to_canonical();
        let target = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let headers = request.headers().get_all(header::HOST).map(header::HeaderValue::as_bytes);
        let mut first = None;
        for named in target.into_iter().chain(headers) {
            let text = std::str::from_utf8(named).map_err(|_| Rejection::NoHost)?;
            let authority: Authority = text.parse().map_err(|_| Rejection::NoHost)?;
            if !self.allows(&authority, listening) {
                return Err(Rejection::HostNotAllowed(text.to_owned()));
            }
            first.get_or_insert(authority);
        }
        first.ok_or(Rejection::NoHost)
    }

    /// Returns whether it is loopback, the address that the server listens on, or allowed by the application. No name
    /// can be rebound to an address in `Host`, since the browser has connected to that address.
    fn allows(&self, wanted: &Authority, listening: IpAddr) -> bool {
        wanted.host.is_loopback()
            || (!listening.is_unspecified() && wanted.host == Host::Address(listening))
            || self.0.iter().any(|allowed| {
                let fits = |port| wanted.port.map_or(matches!(port, 80 | 443), |wanted| wanted == port);
                allowed.host == wanted.host && allowed.port.is_none_or(fits)
            })
    }

    /// Checks the origin, which a browser sends with each request that is not a `GET` or a `HEAD`; programs need not.
    fn check_origin(&self, request: &HttpRequest, authority: &Authority) -> Result<(), Rejection> {
        let mut is_configured = false;
        let own_scheme = if request.app_config().secure() { HTTPS } else { HTTP };
        for origin in request.headers().get_all(header::ORIGIN) {
            let text = String::from_utf8_lossy(origin.as_bytes());
            let rejection = || Rejection::OriginNotAllowed(text.chars().take(MAX_NAME_LEN).collect());
            let (origin, scheme) = origin_of(&text).ok_or_else(rejection)?;
            let default_port = scheme.default_port;
            // Behind a proxy with TLS on another port, which passes on the host of the page: its port is that of the request.
            let is_of_the_request = scheme == HTTPS && origin == *authority;
            is_configured = self.0.iter().any(|allowed| {
                let port = origin.port.unwrap_or(default_port);
                allowed.host == origin.host
                    && (allowed.port.unwrap_or(default_port) == port || allowed.port.is_none() && is_of_the_request)
            });
            // A page over another scheme is another origin. Behind a proxy the host in its address bar is configured.
            let is_own = scheme == own_scheme
                && origin.host == authority.host
                && origin.port.unwrap_or(default_port) == authority.port.unwrap_or(default_port);
            if !is_own && !is_configured {
                return Err(rejection());
            }
        }
        let mut sites = request.headers().get_all("Sec-Fetch-Site").map(header::HeaderValue::as_bytes);
        if !is_configured && sites.any(|site| !matches!(site, b"same-origin" | b"none")) {
            return Err(Rejection::OtherSite);
        }
        Ok(())
    }
}

/// A scheme of origins that may change timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scheme {
    name: &'static str,
    default_port: u16,
}

const HTTP: Scheme = Scheme { name: "http", default_port: 80 };
const HTTPS: Scheme = Scheme { name: "https", default_port: 443 };

/// Returns the authority of an origin, and its scheme.
fn origin_of(text: &str) -> Option<(Authority, Scheme)> {
    let (name, authority) = text.split_once("://")?;
    let scheme = [HTTP, HTTPS].into_iter().find(|scheme| scheme.name == name)?;
    Some((authority.parse().ok()?, scheme))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ANYWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

    fn hosts(allowed: &[&str]) -> AllowedHosts {
        let mut hosts = AllowedHosts::default();
        allowed.iter().for_each(|host| hosts.add(host).unwrap());
        hosts
    }

    fn allows(allowed: &[&str], host: &str) -> bool {
        host.parse().is_ok_and(|host| hosts(allowed).allows(&host, ANYWHERE))
    }

    #[test]
    fn loopback_is_allowed_in_all_its_spellings() {
        for host in [
            "localhost",
            "LocalHost:8080",
            "localhost.",
            "localhost.:80",
            "localhost:",
            "127.0.0.1",
            "127.0.0.1.:1",
            "127.255.3.4:65535",
            "[::1]",
            "[::1]:8080",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]:9",
        ] {
            assert!(allows(&[], host), "{host}");
        }
    }

    #[test]
    fn nothing_else_is_allowed_unless_the_application_says_so() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "evil-localhost",
            "x.localhost",
            "127.0.0.1.evil.example",
            "128.0.0.1",
            "0.0.0.0",
            "[::]",
            "[::2]",
            "[fe80::1]",
            "10.0.0.1:8080",
        ] {
            assert!(host.parse::<Authority>().is_ok(), "{host}");
            assert!(!allows(&[], host), "{host}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_host_is_rejected() {
        for host in [
            "",
            ".",
            ":80",
            "..",
            "localhost..",
            "a..b",
            "user@localhost",
            "localhost@evil.example",
            "localhost:80@evil.example",
            "::1",
            "[::1",
            "[::1]80",
            "[::1]x:80",
            "[fe80::1%25eth0]",
            "[127.0.0.1]",
            "localhost:http",
            "localhost:+80",
            "localhost:65536",
            "localhost:80:80",
            "local host",
            " localhost",
            "localhost/",
            "localhost?",
            "%6cocalhost",
            "lócalhost",
            "127.1",
            "0x7f.0.0.0x1",
            "2130706433",
            "127.0.0.01",
            "localhost,evil.example",
            "http://localhost",
            "*",
        ] {
            assert_eq!(host.parse::<Authority>(), Err(NotAnAuthority), "{host}");
            assert_eq!(AllowedHosts::default().add(host), Err(InvalidHost(host.to_owned())));
        }
        assert!(Host::from_name(&"a".repeat(254)).is_err());
    }

    #[test]
    fn an_allowed_host_has_any_port_unless_it_names_one() {
        let any = ["Timers.Example.org."];
        assert!(allows(&any, "timers.example.org") && allows(&any, "TIMERS.example.org:8443"));
        assert!(!allows(&any, "example.org") && !allows(&any, "x.timers.example.org"));
        let one = ["timers.example.org:8443", "[2001:db8::1]:80"];
        assert!(allows(&one, "timers.example.org:8443") && allows(&one, "[2001:DB8:0::1]"));
        assert!(!allows(&one, "timers.example.org") && !allows(&one, "timers.example.org:80"));
    }

    #[test]
    fn the_address_of_the_server_is_allowed_but_not_a_wildcard() {
        let listening: IpAddr = "192.168.1.5".parse().unwrap();
        assert!(hosts(&[]).allows(&"192.168.1.5:80".parse().unwrap(), listening));
        assert!(!hosts(&[]).allows(&"192.168.1.6:80".parse().unwrap(), listening));
        assert!(!hosts(&[]).allows(&"0.0.0.0:80".parse().unwrap(), ANYWHERE));
    }
}
