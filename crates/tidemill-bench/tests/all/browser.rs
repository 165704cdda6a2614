//! Chromium, when it is installed: what a page is once it was read.

use std::path::Path;
use std::process::Command;

/// The document as the browser has it after parsing, and whether it drew something; none without a browser, and then says so.
pub fn opened(page: &Path) -> Option<String> {
    let url = format!("file://{}", page.display());
    let picture = page.with_extension("png");
    let screenshot = format!("--screenshot={}", picture.display());
    let run = |arguments: &[&str]| {
        let quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,2000"];
        let names = ["chromium", "chromium-browser", "google-chrome"];
        names.iter().find_map(|name| Command::new(name).args(quiet).args(arguments).arg(&url).output().ok())
    };
    let Some(output) = run(&["--dump-dom"]) else {
        println!("skipped: no browser found (apt-get install chromium)");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    run(&[&screenshot]).unwrap();
    // A picture of nothing compresses to a few thousand bytes.
    let drawn = std::fs::metadata(&picture).unwrap().len();
    assert!(drawn > 20_000, "{drawn} bytes of picture");
    Some(String::from_utf8(output.stdout).unwrap())
}
