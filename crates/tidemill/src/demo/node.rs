//! The databases of the second act: one for each turbine, made anew at each start.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;

use super::postgres::Postgres;

/// Each has a node of its own, which is called the same.
pub const TURBINES: [&str; 4] = ["r80711", "r80721", "r80736", "r80790"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Database {
    Postgresql,
    Sqlite,
}

/// Four databases that run, in folders of PostgreSQL or in files of SQLite.
pub struct Nodes {
    dir: PathBuf,
    kind: Kind,
}

enum Kind {
    Postgres(Postgres),
    Sqlite,
}

impl Nodes {
    /// Ends what an earlier run has left in the folder, and starts in it. PostgreSQL if it is there, unless something
    /// else is wanted. Blocks.
    pub fn start(dir: &Path, wanted: Option<Database>) -> Result<Self, String> {
        let installed = Postgres::find();
        if let Ok(postgres) = &installed {
            postgres.end(&TURBINES.map(|turbine| dir.join(turbine)));
        }
        make_anew(dir)?;
        let dir = dir.canonicalize().map_err(|error| failed(dir, &error))?;
        if wanted == Some(Database::Sqlite) {
            return Self::start_sqlite(dir);
        }
        match installed.and_then(|postgres| start_postgres(postgres, &dir)) {
            Ok(kind) => Ok(Self { dir, kind }),
            Err(cause) if wanted.is_some() => Err(cause),
            Err(cause) => {
                println!("{cause}: the nodes are SQLite files.\n");
                make_anew(&dir)?;
                Self::start_sqlite(dir)
            }
        }
    }

    /// An empty file is an empty database.
    fn start_sqlite(dir: PathBuf) -> Result<Self, String> {
        let nodes = Self { dir, kind: Kind::Sqlite };
        for turbine in TURBINES {
            let file = nodes.place(turbine);
            File::create(&file).map_err(|error| failed(&file, &error))?;
        }
        Ok(nodes)
    }

    pub fn are(&self) -> &'static str {
        match self.kind {
            Kind::Postgres(_) => "PostgreSQL servers",
            Kind::Sqlite => "SQLite files",
        }
    }

    /// How a turbine's node, and the table there, are told to Tidemill.
    pub fn definitions(&self, turbine: &str, columns: &str) -> Vec<String> {
        let place = self.place(turbine).display().to_string().replace('\'', "''");
        let table =
            format!("CREATE FOREIGN TABLE measurements_{turbine} ({columns})\n  SERVER {turbine} OPTIONS");
        match self.kind {
            Kind::Postgres(_) => vec![
                format!(
                    "CREATE SERVER {turbine} FOREIGN DATA WRAPPER postgres_fdw\n  OPTIONS (host '{place}', dbname 'postgres');"
                ),
                format!("CREATE USER MAPPING FOR PUBLIC SERVER {turbine} OPTIONS (user 'postgres');"),
                format!("{table} (table_name 'measurements');"),
            ],
            Kind::Sqlite => vec![
                format!(
                    "CREATE SERVER {turbine} FOREIGN DATA WRAPPER sqlite_fdw\n  OPTIONS (database '{place}');"
                ),
                format!("{table} (table 'measurements');"),
            ],
        }
    }

    /// Takes a node away, and shows the command. Blocks.
    pub fn kill(&self, turbine: &str) -> Result<(), String> {
        let place = self.place(turbine);
        match &self.kind {
            Kind::Postgres(postgres) => postgres.kill(&place),
            Kind::Sqlite => rename(&place, &away(&place)),
        }
    }

    /// Brings a node back that was taken away, and shows the command. Blocks.
    pub fn revive(&self, turbine: &str) -> Result<(), String> {
        let place = self.place(turbine);
        match &self.kind {
            Kind::Postgres(postgres) => postgres.revive(&place),
            Kind::Sqlite => rename(&away(&place), &place),
        }
    }

    /// How somebody gets at a node without Tidemill.
    pub fn command(&self, turbine: &str) -> String {
        let place = self.place(turbine);
        match self.kind {
            Kind::Postgres(_) => format!("psql -h {} -U postgres", place.display()),
            Kind::Sqlite => format!("sqlite3 {}", place.display()),
        }
    }

    /// Ends what runs. Blocks.
    pub fn stop(&self) {
        if let Kind::Postgres(postgres) = &self.kind {
            postgres.end(&TURBINES.map(|turbine| self.place(turbine)));
        }
    }

    /// The folder or the file of a node.
    fn place(&self, turbine: &str) -> PathBuf {
        match self.kind {
            Kind::Postgres(_) => self.dir.join(turbine),
            Kind::Sqlite => self.dir.join(format!("{turbine}.db")),
        }
    }
}

/// All nodes at once; if one does not start, none is left.
fn start_postgres(postgres: Postgres, dir: &Path) -> Result<Kind, String> {
    postgres.take_over(dir)?;
    let folders = TURBINES.map(|turbine| dir.join(turbine));
    let started: Result<(), String> = thread::scope(|scope| {
        let starting = folders.each_ref().map(|folder| scope.spawn(|| postgres.start(folder)));
        starting
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .fold(Ok(()), Result::and)
    });
    if let Err(cause) = started {
        postgres.end(&folders);
        return Err(cause);
    }
    Ok(Kind::Postgres(postgres))
}

fn make_anew(dir: &Path) -> Result<(), String> {
    if dir.exists() {
        fs::remove_dir_all(dir).map_err(|error| failed(dir, &error))?;
    }
    fs::create_dir(dir).map_err(|error| failed(dir, &error))
}

/// Where the file of a node is that is not there.
fn away(place: &Path) -> PathBuf {
    place.with_extension("db.away")
}

fn rename(from: &Path, to: &Path) -> Result<(), String> {
    println!("$ mv {} {}\n", from.display(), to.display());
    fs::rename(from, to).map_err(|error| failed(from, &error))
}

pub fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
