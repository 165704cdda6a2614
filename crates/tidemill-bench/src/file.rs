//! Files of results: whole or not there, and none in the place of another one that nobody meant.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Results of one name and second; more are a mistake.
const NAMESAKES_MAX: usize = 1000;

/// Writes beside the file and renames, so that a full disk leaves what was there before.
pub(crate) fn replace(path: &Path, text: &str) -> Result<()> {
    let wrong = |error| Error::file(path, error);
    // What a link leads to is replaced, not the link; pipes and devices are written to.
    let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&place).is_ok_and(|found| !found.is_file()) {
        return fs::write(&place, text).map_err(wrong);
    }
    let beside = beside(&place);
    let written = fs::File::create(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, &place)
    });
    written.map_err(|error| {
        // Nobody needs a part; the error that is told is the first one.
        drop(fs::remove_file(&beside));
        wrong(error)
    })
}

/// Before a run: whether a file can be written there when it has ended.
pub(crate) fn check_place(path: &Path) -> Result<()> {
    let wrong = |error: std::io::Error| Error::usage(Error::file(path, error).to_string());
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(wrong)?;
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(wrong(ErrorKind::IsADirectory.into())),
        // Pipes and devices: to open one may be to wait for its reader.
        Ok(found) if !found.is_file() => return Ok(()),
        _ => {}
    }
    let tried = beside(&fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
    fs::File::create(&tried).and_then(|_| fs::remove_file(&tried)).map_err(wrong)
}

/// Where what becomes a file is written first.
fn beside(place: &Path) -> PathBuf {
    let mut name = place.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    place.with_file_name(name)
}

/// The first of `stem`, `stem-2`, `stem-3`, … that `make` finds free and makes.
pub(crate) fn first_free(
    stem: &Path,
    extension: &str,
    make: impl Fn(&Path) -> std::io::Result<()>,
) -> Result<PathBuf> {
    if let Some(folder) = stem.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
    }
    for number in 1..=NAMESAKES_MAX {
        let mut name = stem.file_name().unwrap_or_default().to_owned();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        name.push(extension);
        let path = stem.with_file_name(name);
        match make(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path.clone()).map_err(|error| Error::file(&path, error)),
        }
    }
    Err(Error::file(stem, format!("there are {NAMESAKES_MAX} of that name")))
}

/// Refuses a folder that has results already: nobody could tell them from those that come.
pub(crate) fn without_results(folder: &Path) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| Error::file(folder, error))?,
    };
    for entry in entries {
        let path = entry.map_err(|error| Error::file(folder, error))?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let folder = folder.display();
            return Err(Error::usage(format!("\"{folder}\" has results already: name another folder")));
        }
    }
    Ok(())
}

/// A new file: whoever else looks for a name at the same moment gets another one.
pub(crate) fn new_file(path: &Path) -> std::io::Result<()> {
    fs::File::create_new(path).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_not_mixed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("swept");
        without_results(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("notes.txt"), "").unwrap();
        without_results(&folder).unwrap();
        fs::write(folder.join("0000.json"), "").unwrap();
        let refused = without_results(&folder).unwrap_err().to_string();
        assert!(refused.ends_with("swept\" has results already: name another folder"), "{refused}");
        assert!(without_results(&folder.join("notes.txt")).is_err());
    }

    #[test]
    fn names_that_are_taken_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let stem = dir.path().join("deep/r-1");
        let name = || first_free(&stem, ".json", new_file).map(|path| path.file_name().unwrap().to_owned());
        assert_eq!(
            [name().unwrap(), name().unwrap(), name().unwrap()],
            ["r-1.json", "r-1-2.json", "r-1-3.json"]
        );
        (4..=NAMESAKES_MAX).for_each(|_| drop(name().unwrap()));
        assert!(name().unwrap_err().to_string().ends_with("there are 1000 of that name"));
        let folder = first_free(&stem, "", |path| fs::create_dir(path)).unwrap();
        assert!(folder.is_dir() && folder.ends_with("r-1"));
    }

    #[test]
    fn a_place_is_tried_before_it_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("deep/r.json");
        check_place(&file).unwrap();
        check_place(Path::new("/dev/null")).unwrap();
        assert_eq!(fs::read_dir(dir.path().join("deep")).unwrap().count(), 0);
        replace(&file, "one").unwrap();
        check_place(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "one");
        for path in [dir.path(), &file.join("below"), Path::new("/proc/nosuch/x.json")] {
            assert!(matches!(check_place(path), Err(Error::Usage(_))), "{}", path.display());
        }
    }

    #[test]
    fn links_and_devices_stay_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("f"), dir.path().join("l"));
        replace(&file, "one").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, "two").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        replace(Path::new("/dev/null"), "x").unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
