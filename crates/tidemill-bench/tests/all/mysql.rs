//! A login as MySQL 8 asks for it where nothing is encrypted: by a server that this test plays.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use tidemill_bench::target::Target;

const NONCE: &[u8; 20] = b"abcdefghijklmnopqrst";
/// Protocol 4.1, secure connection, plugins; no TLS.
const CAPABILITIES: u32 = 0x200 | 0x8000 | 0x8_0000;
const PASSWORD: &str = "correct horse battery staple";

fn send(stream: &mut TcpStream, sequence: u8, body: &[u8]) {
    let length = (body.len() as u32).to_le_bytes();
    stream.write_all(&[&length[..3], &[sequence], body].concat()).unwrap();
}

fn receive(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 4];
    stream.read_exact(&mut head).unwrap();
    let mut body = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
    stream.read_exact(&mut body).unwrap();
    (head[3], body)
}

fn openssl(dir: &Path, arguments: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let mut command = Command::new("openssl");
    command.current_dir(dir).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    output.status.success().then_some(output.stdout)
}

/// Greets, says that it does not know the password yet, gives its public key, and returns what it was sent.
fn ask_for_the_password(listener: &TcpListener, dir: &Path, public_key: &[u8]) -> Vec<u8> {
    let (mut stream, _) = listener.accept().unwrap();
    let [low, high] = [CAPABILITIES as u16, (CAPABILITIES >> 16) as u16].map(u16::to_le_bytes);
    let start = [b"\x0a8.0.36\0\x01\0\0\0", &NONCE[..8], b"\0", &low, b"\x2d\x02\0", &high, b"\x15"].concat();
    let rest = [&[0; 10][..], &NONCE[8..], b"\0caching_sha2_password\0"].concat();
    send(&mut stream, 0, &[start, rest].concat());
    let (sequence, _) = receive(&mut stream);
    send(&mut stream, sequence + 1, &[1, 4]);
    let (sequence, wish) = receive(&mut stream);
    assert_eq!(wish, [2], "the public key");
    send(&mut stream, sequence + 1, &[b"\x01", public_key].concat());
    let (sequence, sealed) = receive(&mut stream);
    let decrypt = ["pkeyutl", "-decrypt", "-inkey", "key.pem", "-pkeyopt", "rsa_padding_mode:oaep"];
    let opened = openssl(dir, &decrypt, &sealed).expect("openssl opens what was sealed");
    send(&mut stream, sequence + 1, &[0, 0, 0, 2, 0, 0, 0]);
    opened.iter().zip(NONCE.iter().cycle()).map(|(a, b)| a ^ b).collect()
}

#[test]
fn a_password_goes_under_the_server_s_public_key() {
    let dir = tempfile::tempdir().unwrap();
    if openssl(dir.path(), &["genrsa", "-out", "key.pem", "2048"], b"").is_none() {
        println!("skipped: no openssl (apt-get install openssl)");
        return;
    }
    let public_key = openssl(dir.path(), &["rsa", "-in", "key.pem", "-pubout"], b"").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("mysql://app:{}@127.0.0.1:{port}/shop", PASSWORD.replace(' ', "%20"));
    let connecting = std::thread::spawn(move || Target::open(&url).unwrap().connect().map(drop));
    let sent = ask_for_the_password(&listener, dir.path(), &public_key);
    assert_eq!(sent, [PASSWORD.as_bytes(), b"\0"].concat());
    connecting.join().unwrap().unwrap();
}
