//! Tests of SCRAM: the RFC's vector, PostgreSQL's verifier form, and a client written here.

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;

/// Made by PostgreSQL 15 for the password "pencil".
const PENCIL: &str = "SCRAM-SHA-256$4096:QK/IkVD5TzjlCLisVdGtJQ==$0Zr63ZAoxRFFnyOjUhJp/yD3q+TI4hd+KhCf3d52GvQ=:\
                      fORC6Z5LZsNssJ6KU1ZlLzR1v212rn3oSYSPShYH8jg=";
const SECRET: &[u8] = b"the server's mock secret";

fn random() -> StdRng {
    StdRng::seed_from_u64(7)
}

fn initial(text: &str) -> InitialResponse {
    let mut body = b"SCRAM-SHA-256\0".to_vec();
    body.extend_from_slice(&(text.len() as u32).to_be_bytes());
    body.extend_from_slice(text.as_bytes());
    InitialResponse::decode(body.into()).unwrap()
}

/// client-final-message of a client with this password, and the server signature that it expects.
fn answer(password: &str, bare: &str, server_first: &str, binding: &str) -> (String, String) {
    let mut parts = server_first.split(',').map(|part| &part[2..]);
    let [nonce, salt, iterations] = std::array::from_fn(|_| parts.next().unwrap());
    let salt = BASE64.decode(salt).unwrap();
    let salted =
        pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), &salt, iterations.parse().unwrap());
    let client_key = hmac(&salted, &[b"Client Key"]);
    let stored_key: Key = Sha256::digest(client_key).into();
    let without_proof = format!("c={binding},r={nonce}");
    let message = format!("{bare},{server_first},{without_proof}");
    let signature = hmac(&stored_key, &[message.as_bytes()]);
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, bit)| key ^ bit).collect();
    let expected = hmac(&hmac(&salted, &[b"Server Key"]), &[message.as_bytes()]);
    (format!("{without_proof},p={}", BASE64.encode(proof)), format!("v={}", BASE64.encode(expected)))
}

fn run(verifier: Option<&Verifier>, password: &str, header: &str, binding: &str) -> (Verdict, String) {
    let mut exchange = Exchange::new("jo", verifier, SECRET, &mut random());
    let bare = "n=,r=clientnonce";
    let server_first = exchange.first(&initial(&format!("{header}{bare}"))).unwrap();
    let server_first = String::from_utf8(server_first).unwrap();
    let (client_final, expected) = answer(password, bare, &server_first, binding);
    (exchange.last(client_final.as_bytes()).unwrap(), expected)
}

#[test]
fn the_example_of_rfc_7677() {
    let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    let mut exchange =
        Exchange::new("user", Some(&Verifier::with_salt("pencil", &salt, 4096)), SECRET, &mut random());
    exchange.server_nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".to_owned();
    let server_first = exchange.first(&initial("n,,n=user,r=rOprNGfwEbeRWgbNEkqO")).unwrap();
    assert_eq!(
        String::from_utf8(server_first).unwrap(),
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    );
    let client_final = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    let verdict = exchange.last(client_final.as_bytes()).unwrap();
    assert_eq!(verdict, Verdict::Accepted(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".to_vec()));
}

#[test]
fn right_and_wrong_passwords() {
    let verifier = Verifier::new("secret", &mut random());
    let (verdict, expected) = run(Some(&verifier), "secret", "n,,", "biws");
    assert_eq!(verdict, Verdict::Accepted(expected.into_bytes()));
    assert!(matches!(run(Some(&verifier), "secret", "y,,", "eSws").0, Verdict::Accepted(_)));
    assert_eq!(run(Some(&verifier), "Secret", "n,,", "biws").0, Verdict::Refused);
    assert!(verifier.accepts("secret") && !verifier.accepts("Secret"));
}

#[test]
fn unknown_users_see_the_same_exchange() {
    assert_eq!(run(None, "secret", "n,,", "biws").0, Verdict::Refused);
    assert_eq!(run(None, "", "n,,", "biws").0, Verdict::Refused);
    let mut random = random();
    let mut shape = |user: &str, verifier: Option<&Verifier>| {
        let mut exchange = Exchange::new(user, verifier, SECRET, &mut random);
        String::from_utf8(exchange.first(&initial("n,,n=,r=abc")).unwrap()).unwrap()
    };
    let real = Verifier::new("secret", &mut StdRng::seed_from_u64(1));
    let (known, unknown, again, other) =
        (shape("a", Some(&real)), shape("b", None), shape("b", None), shape("c", None));
    assert_eq!(known.len(), unknown.len());
    let salt = |first: &str| first.split(',').nth(1).unwrap().to_owned();
    assert_eq!(salt(&unknown), salt(&again));
    assert_ne!(salt(&unknown), salt(&other));
    assert_ne!(unknown, again);
}

#[test]
fn verifiers_read_and_write_the_form_of_postgresql() {
    let text = PENCIL;
    let verifier: Verifier = text.parse().unwrap();
    assert_eq!(verifier.to_string(), text);
    assert!(verifier.accepts("pencil"));
    assert_eq!(format!("{verifier:?}"), "Verifier(redacted)");
    for broken in [
        "",
        "md5abc",
        "SCRAM-SHA-256$0:YQ==$a:b",
        &text[..text.len() - 2],
        "SCRAM-SHA-256$4096:YQ==$YQ==:YQ==",
    ] {
        assert!(broken.parse::<Verifier>().is_err(), "{broken}");
    }
}

#[test]
fn malformed_first_messages() {
    let detail = |text: &str| {
        let error = Exchange::new("jo", None, SECRET, &mut random()).first(&initial(text)).unwrap_err();
        let error = error.into_report();
        error.detail.unwrap_or(error.message)
    };
    assert_eq!(detail(""), "The message is empty.");
    assert_eq!(detail("n,,\0"), "Message length does not match input length.");
    assert_eq!(detail("x,,n=,r=a"), "Unexpected channel-binding flag \"x\".");
    assert_eq!(detail("nx"), "Comma expected, but found character \"x\".");
    assert_eq!(detail("n,b"), "Unexpected attribute \"b\" in client-first-message.");
    assert_eq!(detail("n,a=jo,n=,r=a"), "client uses authorization identity, but it is not supported");
    assert_eq!(detail("n,,m=x,n=,r=a"), "client requires an unsupported SCRAM extension");
    assert_eq!(detail("n,,r=a"), "Expected attribute \"n\" but found \"r\".");
    assert_eq!(detail("n,,n=,r=a b"), "non-printable characters in SCRAM nonce");
    assert_eq!(detail("n,,n"), "Expected character \"=\" for attribute \"n\".");
    assert!(detail("p=tls-unique,,n=,r=a").contains("without channel binding"));
    let mut body = b"SCRAM-SHA-256-PLUS\0\xff\xff\xff\xff".to_vec();
    let response = InitialResponse::decode(body.clone().into()).unwrap();
    assert!(Exchange::new("jo", None, SECRET, &mut random()).first(&response).is_err());
    body.push(0);
    assert!(InitialResponse::decode(body.into()).is_err());
}

#[test]
fn malformed_final_messages() {
    let report = |text: &str| {
        let mut exchange = Exchange::new("jo", None, SECRET, &mut random());
        exchange.first(&initial("n,,n=,r=a")).unwrap();
        let nonce = format!("a{}", exchange.server_nonce);
        let error = exchange.last(text.replace('@', &nonce).as_bytes()).unwrap_err();
        let error = error.into_report();
        error.detail.unwrap_or(error.message)
    };
    let proof = BASE64.encode([0; 32]);
    assert!(report(&format!("c=eSws,r=@,p={proof}")).starts_with("unexpected SCRAM channel-binding"));
    assert_eq!(report(&format!("c=biws,r=b,p={proof}")), "Nonce does not match.");
    assert_eq!(report("c=biws,r=@,p=YQ=="), "Malformed proof in client-final-message.");
    assert_eq!(
        report(&format!("c=biws,r=@,p={proof},x=1")),
        "Garbage found at the end of client-final-message."
    );
    assert!(report("c=biws,r=@").starts_with("Attribute expected"));
    let exchange = Exchange::new("jo", None, SECRET, &mut random());
    assert!(exchange.last(b"c=biws").is_err());
}

#[test]
fn passwords_are_prepared() {
    assert_eq!(saslprep("a b"), "a b");
    assert_eq!(saslprep("a\u{a0}b\u{ad}ü"), "a bü");
    assert_eq!(saslprep("\u{ad}"), "\u{ad}");
    assert_eq!(saslprep("ü\u{ad}\u{7}"), "ü\u{ad}\u{7}");
}
