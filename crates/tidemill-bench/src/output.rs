//! What goes to the terminal, under the names of the standard library's macros, which panic when nobody reads any more
//! (`tidemill bench plan … | head`).

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Something could not be written, and somebody may miss it.
static IS_INCOMPLETE: AtomicBool = AtomicBool::new(false);

macro_rules! print {
    ($($text:tt)*) => { $crate::output::out(::std::format_args!($($text)*)) };
}

macro_rules! println {
    () => { $crate::output::out(::std::format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::out(::std::format_args!("{}\n", ::std::format_args!($($text)*))) };
}

macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::err(::std::format_args!("{}\n", ::std::format_args!($($text)*))) };
}

pub(crate) fn out(text: Arguments<'_>) {
    tell(&mut std::io::stdout().lock(), text);
}

pub(crate) fn err(text: Arguments<'_>) {
    tell(&mut std::io::stderr().lock(), text);
}

/// Whoever closed the pipe has read enough: the work goes on, and its exit code is what it is.
fn tell(to: &mut impl Write, text: Arguments<'_>) {
    match to.write_fmt(text).and_then(|()| to.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => IS_INCOMPLETE.store(true, Ordering::Relaxed),
        _ => {}
    }
}

/// Whether all was written that somebody wanted to read; a full disk behind a redirection is why not.
pub(crate) fn is_complete() -> bool {
    !IS_INCOMPLETE.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn only_a_closed_pipe_is_no_loss() {
        tell(&mut Failing(ErrorKind::BrokenPipe), format_args!("x"));
        assert!(is_complete());
        tell(&mut Failing(ErrorKind::StorageFull), format_args!("x"));
        assert!(!is_complete());
    }
}
