//! A line of `pg_settings`.

use super::table::{Kind, Setting};
use super::value::Value;

/// A line of `pg_settings`; the fields are its columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingRow {
    pub name: String,
    pub setting: String,
    pub unit: Option<&'static str>,
    pub category: &'static str,
    pub short_desc: &'static str,
    pub context: &'static str,
    pub vartype: &'static str,
    pub source: &'static str,
    pub min_val: Option<String>,
    pub max_val: Option<String>,
    pub enumvals: Option<&'static [&'static str]>,
    pub boot_val: Option<String>,
    pub reset_val: Option<String>,
}

impl SettingRow {
    pub(super) fn new(setting: &'static Setting, value: &Value, reset: &Value, source: &'static str) -> Self {
        let kind = &setting.kind;
        let (unit, bounds) = match kind {
            Kind::Integer { min, max, unit } => {
                (unit.map(|unit| unit.base().0), Some((Value::Integer(*min), Value::Integer(*max))))
            }
            Kind::Real { min, max } => (None, Some((Value::Real(*min), Value::Real(*max)))),
            _ => (None, None),
        };
        let (min_val, max_val) = bounds.map(|(min, max)| (kind.raw(&min), kind.raw(&max))).unzip();
        let boot = kind.parse(setting.name, setting.default);
        Self {
            name: setting.name.to_owned(),
            setting: kind.raw(value),
            unit,
            category: setting.category,
            short_desc: setting.description,
            context: setting.context.as_str(),
            vartype: kind.type_name(),
            source,
            min_val,
            max_val,
            enumvals: if let Kind::Enum { values, .. } = kind { Some(values) } else { None },
            boot_val: boot.ok().map(|value| kind.raw(&value)),
            reset_val: Some(kind.raw(reset)),
        }
    }
}
