//! The expressions of `\set` and `\if`: pgbench's grammar, by precedence climbing.

use super::function::Function;
use super::number::double;
use super::value::Value;

#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    Constant(Value),
    Variable(String),
    Call(Function, Vec<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    /// Conditions with their values, and the value of none of them.
    Case(Vec<(Expression, Expression)>, Box<Expression>),
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Int(i64),
    /// 9223372036854775808: good after a minus only.
    IntMaxPlusOne,
    Double(f64),
    Variable(String),
    /// Keywords and functions, lower case.
    Word(String),
    Symbol(&'static str),
}

/// What is wrong, and where in the text (bytes).
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    pub message: String,
    pub at: usize,
}

const SYMBOLS: [&str; 20] = [
    "<<", ">>", "<=", ">=", "<>", "!=", "+", "-", "*", "/", "%", "<", ">", "=", "&", "|", "#", "~", "(", ")",
];

/// Deeper ones are refused: they are evaluated by recursion.
const DEPTH_MAX: usize = 200;

mod level {
    pub const OR: u8 = 1;
    pub const AND: u8 = 2;
    pub const NOT: u8 = 3;
    pub const IS: u8 = 4;
    pub const COMPARE: u8 = 5;
    pub const BIT: u8 = 6;
    pub const ADD: u8 = 7;
    pub const MULTIPLY: u8 = 8;
    pub const UNARY: u8 = 9;
}

pub fn parse(text: &str) -> Result<Expression, Problem> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens, next: 0, end: text.len(), depth: 0 };
    let expression = parser.expression(0)?;
    match parser.peek() {
        None => Ok(expression),
        Some(_) => Err(parser.problem("syntax error")),
    }
}

fn tokens(text: &str) -> Result<Vec<(Token, usize)>, Problem> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let byte = bytes[at];
        let length =
            |is_part: fn(&u8) -> bool, from: usize| bytes[from..].iter().take_while(|b| is_part(b)).count();
        let is_name: fn(&u8) -> bool = |b| b.is_ascii_alphanumeric() || *b == b'_' || *b >= 128;
        if byte.is_ascii_whitespace() {
            at += 1;
        } else if byte == b':' && length(is_name, at + 1) > 0 {
            let end = at + 1 + length(is_name, at + 1);
            tokens.push((Token::Variable(text[at + 1..end].to_owned()), at));
            at = end;
        } else if byte.is_ascii_digit() || (byte == b'.' && length(u8::is_ascii_digit, at + 1) > 0) {
            let end = number_end(bytes, at);
            tokens.push((number(&text[at..end]).map_err(|message| Problem { message, at })?, at));
            at = end;
        } else if byte.is_ascii_alphabetic() {
            let end = at + length(is_name, at);
            tokens.push((Token::Word(text[at..end].to_ascii_lowercase()), at));
            at = end;
        } else if byte == b',' {
            tokens.push((Token::Symbol(","), at));
            at += 1;
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            tokens.push((Token::Symbol(if *symbol == "!=" { "<>" } else { symbol }), at));
            at += symbol.len();
        } else {
            return Err(Problem { message: "unexpected character".to_owned(), at });
        }
    }
    Ok(tokens)
}

fn number_end(bytes: &[u8], at: usize) -> usize {
    let digits = |from: usize| from + bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = digits(at);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = end + 1 + sign;
        if digits(exponent.min(bytes.len())) > exponent {
            end = digits(exponent);
        }
    }
    end
}

fn number(text: &str) -> Result<Token, String> {
    if text == "9223372036854775808" {
        return Ok(Token::IntMaxPlusOne);
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map(Token::Int).map_err(|_| "bigint constant overflow".to_owned());
    }
    double(text).map(Token::Double).ok_or_else(|| "double constant overflow".to_owned())
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    next: usize,
    end: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(token, _)| token)
    }

    fn problem(&self, message: &str) -> Problem {
        let at = self.tokens.get(self.next).map_or(self.end, |(_, at)| *at);
        Problem { message: message.to_owned(), at }
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Symbol(s)) if *s == symbol);
        self.next += usize::from(is_it);
        is_it
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Word(w)) if w == word);
        self.next += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, is_there: bool, what: &str) -> Result<(), Problem> {
        if is_there { Ok(()) } else { Err(self.problem(&format!("syntax error, expected {what}"))) }
    }

    fn expression(&mut self, least: u8) -> Result<Expression, Problem> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.problem("the expression is nested too deeply"));
        }
        let mut left = self.operand()?;
        // Comparisons and IS do not associate: a second one of the same level is an error of syntax.
        let mut closed = u8::MAX;
        while let Some((level, word)) = self.operator() {
            if level < least || level == closed {
                break;
            }
            if level == level::IS {
                left = self.is(left)?;
                closed = level;
                continue;
            }
            self.next += 1;
            let right = self.expression(level + 1)?;
            left = combine(word, left, right);
            if level == level::COMPARE {
                closed = level;
            }
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operator(&self) -> Option<(u8, &'static str)> {
        Some(match self.peek()? {
            Token::Word(word) => match word.as_str() {
                "or" => (level::OR, "or"),
                "and" => (level::AND, "and"),
                "is" | "isnull" | "notnull" => (level::IS, "is"),
                _ => return None,
            },
            Token::Symbol(symbol) => match *symbol {
                "<" | ">" | "=" | "<=" | ">=" | "<>" => (level::COMPARE, symbol),
                "|" | "#" | "&" | "<<" | ">>" => (level::BIT, symbol),
                "+" | "-" => (level::ADD, symbol),
                "*" | "/" | "%" => (level::MULTIPLY, symbol),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// IS [NOT] NULL, TRUE, FALSE; ISNULL; NOTNULL.
    fn is(&mut self, left: Expression) -> Result<Expression, Problem> {
        let (is_negated, value) = if self.take_word("isnull") {
            (false, Value::Null)
        } else if self.take_word("notnull") {
            (true, Value::Null)
        } else {
            self.next += 1;
            let is_negated = self.take_word("not");
            let value = match () {
                () if self.take_word("null") => Value::Null,
                () if self.take_word("true") => Value::Bool(true),
                () if self.take_word("false") => Value::Bool(false),
                () => return Err(self.problem("syntax error, expected NULL, TRUE or FALSE")),
            };
            (is_negated, value)
        };
        let is = Expression::Call(Function::Is, vec![left, Expression::Constant(value)]);
        Ok(if is_negated { Expression::Call(Function::Not, vec![is]) } else { is })
    }

    fn operand(&mut self) -> Result<Expression, Problem> {
        let token = self.peek().cloned().ok_or_else(|| self.problem("unexpected end of the expression"))?;
        self.next += 1;
        let constant = |value| Ok(Expression::Constant(value));
        match token {
            Token::Int(value) => constant(Value::Int(value)),
            Token::Double(value) => constant(Value::Double(value)),
            Token::Variable(name) => Ok(Expression::Variable(name)),
            Token::Symbol("(") => {
                let inner = self.expression(0)?;
                let is_closed = self.take_symbol(")");
                self.expect(is_closed, "\")\"")?;
                Ok(inner)
            }
            Token::Symbol("+") => self.expression(level::UNARY),
            Token::Symbol("-") if self.peek() == Some(&Token::IntMaxPlusOne) => {
                self.next += 1;
                constant(Value::Int(i64::MIN))
            }
            Token::Symbol("-") => {
                let operand = self.expression(level::UNARY)?;
                Ok(Expression::Call(Function::Subtract, vec![Expression::Constant(Value::Int(0)), operand]))
            }
            // As in pgbench it binds as the binary ones do, so `~ 1 + 2` is `~ 3`.
            Token::Symbol("~") => {
                let operand = self.expression(level::ADD)?;
                Ok(Expression::Call(Function::Xor, vec![Expression::Constant(Value::Int(-1)), operand]))
            }
            Token::Word(word) => self.word(&word),
            _ => {
                self.next -= 1;
                Err(self.problem("syntax error"))
            }
        }
    }

    fn word(&mut self, word: &str) -> Result<Expression, Problem> {
        let constant = |value| Ok(Expression::Constant(value));
        match word {
            "null" => constant(Value::Null),
            "true" => constant(Value::Bool(true)),
            "false" => constant(Value::Bool(false)),
            "not" => {
                let operand = self.expression(level::NOT)?;
                Ok(Expression::Call(Function::Not, vec![operand]))
            }
            "case" => self.case(),
            name => self.call(name),
        }
    }

    fn case(&mut self) -> Result<Expression, Problem> {
        let mut arms = Vec::new();
        while self.take_word("when") {
            let condition = self.expression(0)?;
            let is_then = self.take_word("then");
            self.expect(is_then, "THEN")?;
            arms.push((condition, self.expression(0)?));
        }
        self.expect(!arms.is_empty(), "WHEN")?;
        let other =
            if self.take_word("else") { self.expression(0)? } else { Expression::Constant(Value::Null) };
        let is_end = self.take_word("end");
        self.expect(is_end, "END")?;
        Ok(Expression::Case(arms, Box::new(other)))
    }

    fn call(&mut self, name: &str) -> Result<Expression, Problem> {
        self.next -= 1;
        let Some(function) = Function::named(name) else {
            return Err(self.problem(&format!("unexpected function name \"{name}\"")));
        };
        let at = self.next;
        self.next += 1;
        let is_open = self.take_symbol("(");
        self.expect(is_open, "\"(\"")?;
        let mut arguments = Vec::new();
        if !self.take_symbol(")") {
            loop {
                arguments.push(self.expression(0)?);
                if self.take_symbol(")") {
                    break;
                }
                let is_more = self.take_symbol(",");
                self.expect(is_more, "\",\" or \")\"")?;
            }
        }
        if !function.takes(arguments.len()) {
            self.next = at;
            return Err(self.problem(&format!("unexpected number of arguments ({name})")));
        }
        Ok(Expression::Call(function, arguments))
    }
}

fn combine(operator: &str, left: Expression, right: Expression) -> Expression {
    let (left_box, right_box) = match operator {
        "and" => return Expression::And(Box::new(left), Box::new(right)),
        "or" => return Expression::Or(Box::new(left), Box::new(right)),
        // As pgbench has it: only < and <= exist.
        ">" | ">=" => (right, left),
        _ => (left, right),
    };
    let function = match operator {
        "+" => Function::Add,
        "-" => Function::Subtract,
        "*" => Function::Multiply,
        "/" => Function::Divide,
        "%" => Function::Modulo,
        "=" => Function::Equal,
        "<>" => Function::NotEqual,
        "<" | ">" => Function::Less,
        "<=" | ">=" => Function::LessOrEqual,
        "&" => Function::BitAnd,
        "|" => Function::BitOr,
        "#" => Function::Xor,
        "<<" => Function::ShiftLeft,
        _ => Function::ShiftRight,
    };
    Expression::Call(function, vec![left_box, right_box])
}
