//! Commands about the session itself: settings, DISCARD, UNLISTEN.

use tidemill_sql::statement::Statement;
use tidemill_sql::{Result, SqlError};

use super::Session;
use super::execute::Outcome;
use super::rows::{Rows, Tag};
use super::wire::Wire;
use crate::settings::Scope;

impl Session {
    pub(super) fn session_command(&mut self, wire: &mut Wire, statement: Statement) -> Result<Outcome> {
        match statement {
            Statement::Set { local, name, value } => {
                let scope = if local { Scope::Local } else { Scope::Session };
                let notices = match &value {
                    Some(values) => {
                        let values: Vec<&str> = values.iter().map(String::as_str).collect();
                        self.settings.set(&name, &values, scope)?
                    }
                    None => self.settings.reset(&name, scope)?,
                };
                self.notices(wire, notices);
                Ok(Outcome::Tag("SET".into()))
            }
            Statement::Reset(name) => {
                match name {
                    Some(name) => {
                        let notices = self.settings.reset(&name, Scope::Session)?;
                        self.notices(wire, notices);
                    }
                    None => self.settings.reset_all(),
                }
                Ok(Outcome::Tag("RESET".into()))
            }
            Statement::Show(name) => self.show(name.as_deref()),
            Statement::Discard(what) => self.discard(&what),
            // Nobody can have listened.
            Statement::Unlisten => Ok(Outcome::Tag("UNLISTEN".into())),
            Statement::AlterRole { name, password } => self.alter_role(&name, password.as_deref()),
            other => Err(not_supported(&other)),
        }
    }

    fn show(&mut self, name: Option<&str>) -> Result<Outcome> {
        let rows = match name {
            Some(name) => {
                let (name, value) = self.settings.show(name)?;
                Rows::of_text(&[&name], &[vec![value]], Tag::Plain("SHOW"))?
            }
            None => {
                let rows: Vec<_> =
                    self.settings.show_all().into_iter().map(|(n, v, d)| vec![n, v, d.to_string()]).collect();
                Rows::of_text(&["name", "setting", "description"], &rows, Tag::Plain("SHOW"))?
            }
        };
        Ok(Outcome::Rows(rows, vec![]))
    }

    fn forget_inserts(&mut self) {
        self.inserts.clear();
        self.unnamed.clear();
    }

    fn discard(&mut self, what: &str) -> Result<Outcome> {
        match what {
            "ALL" => {
                self.refuse_in_block("DISCARD ALL")?;
                self.portals.clear();
                self.settings.reset_all();
                self.statements.clear();
                self.forget_inserts();
            }
            "PLANS" => self.forget_inserts(),
            // There are none.
            "TEMP" | "TEMPORARY" | "SEQUENCES" => {}
            _ => return Err(SqlError::syntax(format!("syntax error at or near \"{what}\"")).with_position(9)),
        }
        let what = if what == "TEMPORARY" { "TEMP" } else { what };
        Ok(Outcome::Tag(format!("DISCARD {what}")))
    }

    fn alter_role(&mut self, name: &str, password: Option<&str>) -> Result<Outcome> {
        self.refuse_read_only("ALTER ROLE")?;
        self.server.set_password(name, password)?;
        Ok(Outcome::Tag("ALTER ROLE".into()))
    }
}

fn not_supported(statement: &Statement) -> SqlError {
    let shown = format!("{statement:?}");
    let word = shown.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_uppercase();
    SqlError::unsupported(format!("{word} is not supported yet"))
        .with_position(1)
        .with_hint("docs/compat.md lists what is.")
}
