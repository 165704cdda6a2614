//! Encrypted connections, to servers with certificates that are made here.

use std::path::Path;
use std::process::Command;

use tidemill_bench::target::Target;

use crate::bench::{bench, result, write};
use crate::mariadb::MariaDb;
use crate::postgres::Postgres;
use crate::target::contract;

/// A root that signs for `localhost`, and another one; false when there is no `openssl`, and then says so.
fn certificates(folder: &Path) -> bool {
    if Command::new("openssl").arg("version").output().is_err() {
        println!("skipped: no openssl found (apt-get install openssl)");
        return false;
    }
    write(folder, "extensions", "subjectAltName=DNS:localhost\n");
    let openssl = |arguments: &str| {
        let output = Command::new("openssl").current_dir(folder).args(arguments.split(' ')).output().unwrap();
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    };
    for root in ["root", "other"] {
        openssl(&format!(
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={root} -keyout {root}.key -out {root}.crt"
        ));
    }
    openssl("req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr");
    openssl(
        "x509 -req -in server.csr -CA root.crt -CAkey root.key -CAcreateserial -days 2 -extfile extensions -out server.crt",
    );
    true
}

fn connect(url: &str) -> Result<bool, String> {
    let connected = Target::open(url).and_then(|target| target.connect());
    connected.map(|connection| connection.is_encrypted()).map_err(|error| error.to_string())
}

/// What `sslmode` means is the same for all databases.
fn modes(url: impl Fn(&str) -> String, folder: &Path) {
    let root = format!("sslrootcert={}", folder.join("root.crt").display());
    let other = format!("sslrootcert={}", folder.join("other.crt").display());
    let asked = |host: &str, options: &str| connect(&format!("{}?{options}", url(host)));
    let ip = "127.0.0.1";
    assert_eq!(asked(ip, "sslmode=disable"), Ok(false));
    for (host, options) in [
        (ip, "connect_timeout=9".to_owned()),
        (ip, "sslmode=require".to_owned()),
        (ip, format!("sslmode=verify-ca&{root}")),
        ("localhost", format!("sslmode=verify-full&{root}")),
    ] {
        assert_eq!(asked(host, &options), Ok(true), "{options}");
    }
    for options in [format!("sslmode=verify-full&{root}"), format!("sslmode=require&{other}")] {
        let error = asked(ip, &options).unwrap_err();
        assert!(error.contains("no agreement on TLS: invalid peer certificate"), "{options}: {error}");
    }
    let error = asked(ip, "sslmode=verify-full").unwrap_err();
    assert!(error.contains("add sslrootcert=FILE to the URL"), "{error}");
    let error = asked(ip, "sslmode=always").unwrap_err();
    assert!(error.contains("there is no sslmode \"always\" (disable, allow,"), "{error}");
    contract(&format!("{}?sslmode=require", url(ip)));
}

#[test]
fn postgres_under_tls() {
    let folder = tempfile::tempdir().unwrap();
    if !certificates(folder.path()) {
        return;
    }
    let server = Postgres::start_with(|dir| {
        for file in ["server.crt", "server.key"] {
            std::fs::copy(folder.path().join(file), dir.join(file)).unwrap();
        }
        let file = |name: &str| dir.join(name).display().to_string();
        vec![
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", file("server.crt")),
            format!("ssl_key_file={}", file("server.key")),
        ]
    });
    let Some(server) = server else { return };
    modes(|host| server.url_by(host), folder.path());
    let script = write(folder.path(), "one.sql", "\\set n random(1, 30000)\nselect repeat('x', :n);\n");
    let output = folder.path().join("r.json");
    let output = output.to_str().unwrap();
    let url = format!("{}?sslmode=require", server.url());
    let load = ["-c", "8", "-R", "500", "-T", "2s", "-M", "prepared", "-P", "0", "-o", output];
    let ran = bench(folder.path(), &[&["run", &script, "--target", &url][..], &load].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains(" under TLS: PostgreSQL 15"), "{}", ran.out);
    let total = result(output).repeats[0].record.total();
    assert!(total.processed > 500 && total.failed == 0, "{total:?}");
}

#[test]
fn mysql_under_tls() {
    let folder = tempfile::tempdir().unwrap();
    if !certificates(folder.path()) {
        return;
    }
    let file = |name: &str| folder.path().join(name).display().to_string();
    let options = [("ca", "root.crt"), ("cert", "server.crt"), ("key", "server.key")];
    let options = options.map(|(option, name)| format!("--ssl-{option}={}", file(name)));
    let Some(server) = MariaDb::start_with(|_| options.to_vec()) else { return };
    modes(|host| server.url("root").replace("127.0.0.1", host), folder.path());
}

#[test]
fn a_server_without_tls_says_so() {
    if let Some(server) = Postgres::start() {
        let error = connect(&format!("{}?sslmode=require", server.url())).unwrap_err();
        assert!(error.contains("the server does not offer TLS, and the URL requires it"), "{error}");
    }
}
