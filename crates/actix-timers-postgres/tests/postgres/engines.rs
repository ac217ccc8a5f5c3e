//! Servers that only speak the protocol.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use actix_timers_postgres::{ConnectError, PostgresOptions};

use crate::server::connect_to;

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![tag];
    message.extend((body.len() as u32 + 4).to_be_bytes());
    message.extend(body);
    message
}

/// Lets anyone in.
fn let_in(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut start = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut start)?;
    stream.write_all(&message(b'R', &0_u32.to_be_bytes()))?;
    stream.write_all(&message(b'Z', b"I"))
}

/// Lets anyone in, and answers each query with a text.
fn talk(mut stream: TcpStream, answer: impl Fn(&str) -> &'static str) -> std::io::Result<()> {
    let_in(&mut stream)?;
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let mut body = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4];
        stream.read_exact(&mut body)?;
        let answer = answer(&String::from_utf8_lossy(&body));
        let mut column = b"\0\x01version\0".to_vec();
        column.extend([0; 18]);
        column[10 + 6 + 3] = 25;
        let mut row = b"\0\x01".to_vec();
        row.extend((answer.len() as u32).to_be_bytes());
        row.extend(answer.as_bytes());
        stream.write_all(
            &[message(b'T', &column), message(b'D', &row), message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat(),
        )?;
    }
}

fn engine(answer: impl Fn(&str) -> &'static str + Clone + Send + 'static) -> String {
    listen(move |stream| _ = talk(stream, answer.clone()))
}

fn options() -> PostgresOptions {
    PostgresOptions::new().timeout(Duration::from_secs(2))
}

#[test]
fn an_engine_that_only_speaks_the_protocol_is_rejected() {
    for version in ["CockroachDB CCL v23.1.11", "PostgreSQL 11.2-YB-2.19.0.0-b0 on x86_64", "hello"] {
        let error = connect_to(&engine(move |_| version), options()).unwrap_err();
        assert!(matches!(&error, ConnectError::Unsuitable(reason) if reason.contains("not PostgreSQL")), "{error}");
        assert!(error.to_string().contains(version), "{error}");
    }
}

#[test]
fn a_server_before_version_14_is_rejected() {
    let answer = |query: &str| if query.contains("num") { "130011" } else { "PostgreSQL 13.11 on x86_64-pc-linux-gnu" };
    let error = connect_to(&engine(answer), options()).unwrap_err();
    assert!(matches!(&error, ConnectError::Unsuitable(_)), "{error}");
    assert!(error.to_string().contains("PostgreSQL 13.11") && error.to_string().contains("14 or later"), "{error}");
}

/// Accepts connections, and treats each of them in the same way.
fn listen(treat: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let treat = treat.clone();
            thread::spawn(move || treat(stream));
        }
    });
    format!("postgres://timers@{address}/x")
}

#[test]
fn a_server_that_makes_no_sense_is_an_error_in_time() {
    let hang = || thread::sleep(Duration::from_secs(60));
    let silent = listen(move |_| hang());
    let no_reply = listen(move |mut stream| {
        _ = let_in(&mut stream);
        hang();
    });
    let says = |text: &'static [u8]| listen(move |mut stream| _ = stream.write_all(text));
    let http = says(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let ssh = says(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
    let began = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            let error = connect_to(&no_reply, options()).unwrap_err();
            assert!(matches!(error, ConnectError::Failed(_)) && error.to_string().contains("no reply"), "{error}");
        });
        for address in [silent, http, ssh, says(&[0xFF; 4096]), says(b"")] {
            scope.spawn(move || {
                let error = connect_to(&address, options()).unwrap_err();
                assert!(matches!(error, ConnectError::Unreachable(_)), "{error}");
                assert!(error.to_string().contains("check address"), "{error}");
            });
        }
    });
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}
