//! Script files: SQL between semicolons, and lines of backslash commands, cut up as psql and pgbench do.

use std::time::Duration;

use super::expression::{self, Expression};
use super::scan::{End, Scanned, scan};
use super::value::is_variable_name;

#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    pub action: Action,
    /// For reports: the first line of what it was.
    pub text: String,
    pub line: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Sql(Sql),
    Set(String, Expression),
    Sleep(Argument, Duration),
    If(Expression),
    Elif(Expression),
    Else,
    EndIf,
    /// The variable that gets the first line of the output, if any; the words of the command.
    Shell(Option<String>, Vec<Argument>),
    StartPipeline,
    EndPipeline,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sql {
    pub text: String,
    pub fetch: Fetch,
}

/// What becomes of the rows.
#[derive(Debug, Clone, PartialEq)]
pub enum Fetch {
    Drop,
    /// `\gset prefix`: exactly one row.
    One(String),
    /// `\aset prefix`: the last row of each result that has one.
    Last(String),
}

/// A word of a backslash command: text, or a variable's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    Text(String),
    Variable(String),
}

/// What is wrong with a script, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptError {
    pub message: String,
    pub line: usize,
}

pub fn parse(text: &str) -> Result<Vec<Command>, ScriptError> {
    let mut parser = Parser { text, at: 0, line: 1, commands: Vec::new() };
    parser.run()?;
    check_conditions(&parser.commands)?;
    Ok(parser.commands)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    commands: Vec<Command>,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn advance(&mut self, bytes: usize) -> &'a str {
        let taken = &self.text[self.at..self.at + bytes];
        self.line += taken.bytes().filter(|b| *b == b'\n').count();
        self.at += bytes;
        taken
    }

    fn run(&mut self) -> Result<(), ScriptError> {
        loop {
            self.skip_space();
            let line = self.line;
            let Scanned { sql, length, end } =
                scan(self.rest()).map_err(|error| ScriptError { line: line + error.line, ..error })?;
            self.advance(length);
            let sql = sql.trim();
            if !sql.is_empty() {
                let action = Action::Sql(Sql { text: sql.to_owned(), fetch: Fetch::Drop });
                self.push(action, sql, line);
            }
            match end {
                End::Semicolon => {}
                End::Backslash => self.backslash()?,
                End::Text => return Ok(()),
            }
        }
    }

    fn push(&mut self, action: Action, text: &str, line: usize) {
        let text = text.trim().lines().next().unwrap_or_default().trim_end().to_owned();
        self.commands.push(Command { action, text, line });
    }

    /// Space and `--` comments in front of a statement are not part of it.
    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let space = rest.len() - rest.trim_start().len();
            self.advance(space);
            if !self.rest().starts_with("--") {
                return;
            }
            let comment = self.rest().find('\n').unwrap_or(self.rest().len());
            self.advance(comment);
        }
    }

    fn backslash(&mut self) -> Result<(), ScriptError> {
        let line = self.line;
        let mut length = 0;
        // A backslash at the end of a line continues it.
        loop {
            let end = self.rest()[length..].find('\n').map_or(self.rest().len(), |end| length + end);
            let lines = self.rest()[..end].trim_end_matches('\r');
            // A backslash alone is no command, and nothing that could go on.
            let is_continued = lines.ends_with('\\') && lines.len() > 1;
            length = end;
            if !is_continued || end == self.rest().len() {
                break;
            }
            length += 1;
        }
        let whole = &self.rest()[..length];
        let parsed = self.command(whole, line);
        self.advance(length);
        parsed
    }

    fn command(&mut self, whole: &str, line: usize) -> Result<(), ScriptError> {
        let joined = whole[1..].replace("\\\r\n", " ").replace("\\\n", " ");
        let after = joined.trim();
        if after.is_empty() {
            return Ok(());
        }
        let name_end = after.find(char::is_whitespace).unwrap_or(after.len());
        let (name, rest) = (&after[..name_end], after[name_end..].trim());
        let words: Vec<&str> = rest.split_whitespace().collect();
        let wrong = |message: String| Err(ScriptError { message, line });
        let expression = |text: &str| {
            expression::parse(text).map_err(|problem| ScriptError {
                message: format!(
                    "{} in command \"{name}\" at \"{}\"",
                    problem.message,
                    from(text, problem.at)
                ),
                line,
            })
        };
        let none_taken = |action| match words.is_empty() {
            true => Ok(action),
            false => Err(ScriptError { message: format!("unexpected argument in command \"{name}\""), line }),
        };
        let action = match name.to_ascii_lowercase().as_str() {
            "set" => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let (variable, text) = (&rest[..end], rest[end..].trim());
                if variable.is_empty() || text.is_empty() {
                    return wrong("missing argument in command \"set\"".to_owned());
                }
                Action::Set(valid_name(variable, line)?, expression(text)?)
            }
            "if" => Action::If(expression(rest)?),
            "elif" => Action::Elif(expression(rest)?),
            "else" => none_taken(Action::Else)?,
            "endif" => none_taken(Action::EndIf)?,
            "startpipeline" => none_taken(Action::StartPipeline)?,
            "endpipeline" => none_taken(Action::EndPipeline)?,
            "sleep" => sleep(&words, line)?,
            "shell" if words.is_empty() => return wrong("missing command in command \"shell\"".to_owned()),
            "shell" => Action::Shell(None, words.iter().map(|word| argument(word)).collect()),
            "setshell" if words.len() < 2 => {
                return wrong("missing argument in command \"setshell\"".to_owned());
            }
            "setshell" => Action::Shell(
                Some(valid_name(words[0], line)?),
                words[1..].iter().map(|word| argument(word)).collect(),
            ),
            "gset" | "aset" => return self.fetch(name, &words, line),
            _ => return wrong(format!("invalid command \"\\{name}\"")),
        };
        self.push(action, whole, line);
        Ok(())
    }

    /// `\gset` and `\aset` belong to the statement before them.
    fn fetch(&mut self, name: &str, words: &[&str], line: usize) -> Result<(), ScriptError> {
        let wrong = |message: String| Err(ScriptError { message, line });
        if words.len() > 1 {
            return wrong(format!("too many arguments in command \"{name}\""));
        }
        let prefix = words.first().copied().unwrap_or_default().to_owned();
        match self.commands.last_mut().map(|command| &mut command.action) {
            Some(Action::Sql(sql)) if sql.fetch == Fetch::Drop => {
                sql.fetch =
                    if name.eq_ignore_ascii_case("gset") { Fetch::One(prefix) } else { Fetch::Last(prefix) };
                Ok(())
            }
            _ => wrong(format!("\\{name} must follow an SQL command")),
        }
    }
}

fn from(text: &str, at: usize) -> &str {
    let rest = text.get(at..).unwrap_or_default();
    if rest.is_empty() { "end of line" } else { rest }
}

fn valid_name(name: &str, line: usize) -> Result<String, ScriptError> {
    match is_variable_name(name) {
        true => Ok(name.to_owned()),
        false => Err(ScriptError { message: format!("invalid variable name: \"{name}\""), line }),
    }
}

/// `:name` is a variable, `::name` the text `:name`.
fn argument(word: &str) -> Argument {
    match word.strip_prefix(':') {
        Some(escaped) if escaped.starts_with(':') => Argument::Text(escaped.to_owned()),
        Some(name) if !name.is_empty() => Argument::Variable(name.to_owned()),
        _ => Argument::Text(word.to_owned()),
    }
}

/// As pgbench reads it: a sign and digits, the unit behind them or in a word of its own.
fn sleep(words: &[&str], line: usize) -> Result<Action, ScriptError> {
    let wrong =
        |message: String| Err(ScriptError { message: format!("{message} in command \"sleep\""), line });
    let (first, mut unit) = match words {
        [] => return wrong("missing argument".to_owned()),
        [first] => (*first, "s"),
        [first, unit] => (*first, *unit),
        _ => return wrong("too many arguments".to_owned()),
    };
    let mut amount = argument(first);
    if let Argument::Text(text) = &amount {
        let sign = usize::from(text.starts_with(['-', '+']));
        let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = first.split_at(sign + digits);
        if !rest.is_empty() {
            if words.len() > 1 || digits == 0 {
                return wrong(format!("invalid sleep time, must be an integer (\"{text}\")"));
            }
            unit = rest;
        }
        amount = Argument::Text(number.to_owned());
    }
    let unit = match unit.to_ascii_lowercase().as_str() {
        "us" => Duration::from_micros(1),
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        _ => return wrong(format!("unrecognized time unit, must be us, ms or s (\"{unit}\")")),
    };
    Ok(Action::Sleep(amount, unit))
}

fn check_conditions(commands: &[Command]) -> Result<(), ScriptError> {
    let mut open = Vec::new();
    for command in commands {
        let wrong = |message: &str| Err(ScriptError { message: message.to_owned(), line: command.line });
        match (&command.action, open.last().copied()) {
            (Action::If(_), _) => open.push(false),
            (Action::Elif(_), None) => return wrong("\\elif without matching \\if"),
            (Action::Elif(_), Some(true)) => return wrong("\\elif after \\else"),
            (Action::Else, None) => return wrong("\\else without matching \\if"),
            (Action::Else, Some(true)) => return wrong("\\else after \\else"),
            (Action::Else, Some(false)) => *open.last_mut().expect("one is open") = true,
            (Action::EndIf, None) => return wrong("\\endif without matching \\if"),
            (Action::EndIf, Some(_)) => drop(open.pop()),
            _ => {}
        }
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(ScriptError {
            message: "\\if without matching \\endif".to_owned(),
            line: commands.last().map_or(1, |command| command.line),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<String> {
        let sql = |command: Command| match command.action {
            Action::Sql(sql) => Some(sql.text),
            _ => None,
        };
        parse(script).unwrap().into_iter().filter_map(sql).collect()
    }

    #[test]
    fn statements_end_where_psql_ends_them() {
        assert_eq!(
            texts(
                "-- first\nselect ';' ;\nselect $x$ ; $x$, \"a;b\" /* ; /* ; */ */;\nselect (1;2);\nselect 3"
            ),
            ["select ';'", "select $x$ ; $x$, \"a;b\" /* ; /* ; */ */", "select (1;2)", "select 3"]
        );
        assert_eq!(
            texts("select 1\\; select 2;\nselect E'\\';', '\\';"),
            ["select 1; select 2", "select E'\\';', '\\'"]
        );
        assert_eq!(texts("select $1, a$b$ from t;x"), ["select $1, a$b$ from t", "x"]);
    }

    #[test]
    fn backslash_commands_are_lines() {
        let commands =
            parse("\\set a 1 + \\\n 2\nselect :a\n  as b \\gset p_\n\\sleep 5 ms\n\\sleep :a us").unwrap();
        assert_eq!(commands.len(), 4);
        assert_eq!(commands[0].action, Action::Set("a".into(), expression::parse("1 + 2").unwrap()));
        let wanted = Sql { text: "select :a\n  as b".into(), fetch: Fetch::One("p_".into()) };
        assert_eq!(commands[1].action, Action::Sql(wanted));
        assert_eq!(commands[1].line, 3);
        assert_eq!(commands[2].action, Action::Sleep(Argument::Text("5".into()), Duration::from_millis(1)));
        assert_eq!(
            commands[3].action,
            Action::Sleep(Argument::Variable("a".into()), Duration::from_micros(1))
        );
    }

    #[test]
    fn commands_are_read_as_pgbench_reads_them() {
        let commands =
            parse("\\SET x 1 +\\\n\\\r\n 2\n\\\n\\ Sleep -5 \\\n MS\n\\sleep +5Us\nselect 1 \\GSET").unwrap();
        assert_eq!(commands[0].action, Action::Set("x".into(), expression::parse("1 + 2").unwrap()));
        assert_eq!(commands[1].action, Action::Sleep(Argument::Text("-5".into()), Duration::from_millis(1)));
        assert_eq!((commands[1].text.as_str(), commands[1].line), ("\\ Sleep -5 \\", 5));
        assert_eq!(commands[2].action, Action::Sleep(Argument::Text("+5".into()), Duration::from_micros(1)));
        let wanted = Sql { text: "select 1".into(), fetch: Fetch::One(String::new()) };
        assert_eq!((&commands[3].action, commands[3].line), (&Action::Sql(wanted), 8));
    }

    #[test]
    fn what_is_wrong_has_a_line() {
        for (script, message, line) in [
            ("select 1;\n\\sett x 1", "invalid command \"\\sett\"", 2),
            ("\\set 1x 5", "invalid variable name: \"1x\"", 1),
            ("\\setshell 2 date", "invalid variable name: \"2\"", 1),
            ("\\set x", "missing argument in command \"set\"", 1),
            ("\n\n\\set x 1 +", "unexpected end of the expression in command \"set\" at \"end of line\"", 3),
            ("\\if 1\nselect 1;", "\\if without matching \\endif", 2),
            ("\\endif", "\\endif without matching \\if", 1),
            ("\\gset", "\\gset must follow an SQL command", 1),
            ("\\Sleep x", "invalid sleep time, must be an integer (\"x\") in command \"sleep\"", 1),
            ("\\sleep 1.5", "unrecognized time unit, must be us, ms or s (\".5\") in command \"sleep\"", 1),
            ("\\sleep - 5", "unrecognized time unit, must be us, ms or s (\"5\") in command \"sleep\"", 1),
            ("\\set x 1e400", "double constant overflow in command \"set\" at \"1e400\"", 1),
            ("\\set x 1e-400", "double constant overflow in command \"set\" at \"1e-400\"", 1),
            ("select 1;\n\nselect\n 'a", "unterminated '", 4),
            ("select 'a", "unterminated '", 1),
        ] {
            let error = parse(script).unwrap_err();
            assert_eq!((error.message.as_str(), error.line), (message, line), "{script}");
        }
    }
}
