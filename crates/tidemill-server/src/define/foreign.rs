//! CREATE, ALTER and DROP of foreign servers and user mappings.

use std::sync::Arc;

use tidemill_federation::connector::ImportedTable;
use tidemill_federation::{Options, Place, Wrapper};
use tidemill_sql::name::quote_ident;
use tidemill_sql::statement::{
    CreateServer, ForeignOption, ForeignStatement, ImportSchema, MappedUser, OptionChange,
};
use tidemill_sql::{Result, SqlError, SqlState};

use super::{dependency, drop, foreign_table};
use crate::catalog::{
    Catalog, Change, FIRST_USER_OID, ForeignServer, Relation, ServerObject, UserMappingObject,
};
use crate::pg::wire_error::Notice;
use crate::query::Planner;
use crate::server::Server;
use crate::session::SUPERUSER;
use crate::system::STREAM_SERVER;

/// Tables that one IMPORT FOREIGN SCHEMA takes at most.
const IMPORT_TABLES_MAX: usize = 10_000;

/// What a statement has to know from the other server before it is carried out.
pub async fn ask(server: &Server, statement: &ForeignStatement) -> Result<Vec<ImportedTable>> {
    let ForeignStatement::ImportSchema(import) = statement else { return Ok(vec![]) };
    foreign_table::check_import(&server.catalog, import)?;
    let remote = server.catalog.server(&import.server)?;
    let options = Options::new(&import.options)?;
    let Some(tables) = remote.connector()?.tables(&import.remote, &import.selection, &options).await? else {
        let message =
            format!("schema \"{}\" is not present on foreign server \"{}\"", import.remote, import.server);
        return Err(SqlError::new(SqlState::FDW_SCHEMA_NOT_FOUND, message));
    };
    if tables.len() > IMPORT_TABLES_MAX {
        let ImportSchema { remote, server, .. } = import;
        let message = format!("schema \"{remote}\" of server \"{server}\" has {} tables", tables.len());
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
            .with_detail(format!("At most {IMPORT_TABLES_MAX} can be imported at once."))
            .with_hint("Name some of them: LIMIT TO (…)."));
    }
    Ok(tables)
}

pub async fn carry_out(
    planner: &Planner,
    statement: ForeignStatement,
    imported: Vec<ImportedTable>,
) -> Result<Vec<Notice>> {
    let server = &planner.server;
    let catalog = server.catalog.as_ref();
    let _change = catalog.change.lock().await;
    match statement {
        ForeignStatement::CreateServer(create) => create_server(catalog, create),
        ForeignStatement::AlterServer { name, version, options } => {
            alter_server(catalog, &name, version, &options)
        }
        ForeignStatement::RenameServer { name, to } => rename_server(catalog, &name, to),
        ForeignStatement::DropServers { if_exists, names, cascade } => {
            drop_servers(server, if_exists, &names, cascade)
        }
        ForeignStatement::CreateUserMapping { if_not_exists, user, server, options } => {
            create_mapping(catalog, if_not_exists, &user, &server, &options)
        }
        ForeignStatement::AlterUserMapping { user, server, options } => {
            alter_mapping(catalog, &user, &server, &options)
        }
        ForeignStatement::DropUserMapping { if_exists, user, server } => {
            drop_mapping(catalog, if_exists, &user, &server)
        }
        ForeignStatement::CreateTable(create) => foreign_table::create(catalog, create),
        ForeignStatement::CreateMultiTenant(create) => foreign_table::create_multi_tenant(catalog, create),
        ForeignStatement::AlterTable { if_exists, name, actions } => {
            foreign_table::alter(planner, &name, if_exists, actions).await
        }
        ForeignStatement::ImportSchema(import) => foreign_table::import(catalog, &import, imported),
    }
}

/// Options that a wrapper knows, with notices about those that change nothing.
pub fn checked(wrapper: &Wrapper, place: Place, options: &Options) -> Result<Vec<Notice>> {
    let idle = wrapper.validate(place, options)?;
    Ok(idle
        .into_iter()
        .map(|(name, why)| Notice::new(format!("option \"{name}\" has no effect: {why}")))
        .collect())
}

fn server_exists(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_OBJECT, format!("server \"{name}\" already exists"))
}

/// The name of a new server is free.
fn check_name(catalog: &Catalog, name: &str) -> Result<()> {
    if name == STREAM_SERVER {
        let error = SqlError::new(SqlState::DUPLICATE_OBJECT, format!("server \"{name}\" already exists"));
        return Err(error.with_detail("It is the server of all streams."));
    }
    if catalog.server(name).is_ok() { Err(server_exists(name)) } else { Ok(()) }
}

fn create_server(catalog: &Catalog, create: CreateServer) -> Result<Vec<Notice>> {
    if let Err(error) = check_name(catalog, &create.name) {
        let skipped = format!("server \"{}\" already exists, skipping", create.name);
        return if create.if_not_exists { Ok(vec![Notice::new(skipped)]) } else { Err(error) };
    }
    let wrapper = Wrapper::get(&create.wrapper)?;
    let options = Options::new(&create.options)?;
    let notices = checked(wrapper, Place::Server, &options)?;
    let CreateServer { name, kind, version, wrapper, .. } = create;
    let object = ServerObject { name, kind, version, wrapper, options };
    put_server(catalog, ForeignServer::new(catalog.allocate_oid(), object, vec![], &catalog.suspected)?)?;
    Ok(notices)
}

/// Makes a new state of a server last. What runs on the old one's connections comes to its end.
fn put_server(catalog: &Catalog, server: ForeignServer) -> Result<()> {
    catalog.persist(&[Change::PutServer(server.oid, &server.object)])?;
    catalog.install_server(server);
    Ok(())
}

fn alter_server(
    catalog: &Catalog,
    name: &str,
    version: Option<String>,
    changes: &[OptionChange],
) -> Result<Vec<Notice>> {
    let server = own_server(catalog, name)?;
    let mut object = server.object.clone();
    object.options = object.options.changed(changes)?;
    object.version = version.or(object.version);
    let notices = checked(server.wrapper, Place::Server, &object.options)?;
    put_server(
        catalog,
        ForeignServer::new(server.oid, object, server.mappings.clone(), &catalog.suspected)?,
    )?;
    Ok(notices)
}

fn rename_server(catalog: &Catalog, name: &str, to: String) -> Result<Vec<Notice>> {
    let server = own_server(catalog, name)?;
    check_name(catalog, &to)?;
    let object = ServerObject { name: to, ..server.object.clone() };
    put_server(
        catalog,
        ForeignServer::new(server.oid, object, server.mappings.clone(), &catalog.suspected)?,
    )?;
    Ok(vec![])
}

/// A server that users have made.
pub fn own_server(catalog: &Catalog, name: &str) -> Result<Arc<ForeignServer>> {
    let (is_built_in, detail) = match catalog.server(name) {
        _ if name == STREAM_SERVER => (true, "It is the server of all streams."),
        Ok(server) => {
            (server.oid < FIRST_USER_OID, "It is the server of multi-tenant tables that name their children.")
        }
        Err(error) => return Err(error),
    };
    if is_built_in {
        let message = format!("server \"{name}\" cannot be changed");
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).with_detail(detail));
    }
    catalog.server(name)
}

fn drop_servers(server: &Server, if_exists: bool, names: &[String], cascade: bool) -> Result<Vec<Notice>> {
    let catalog = server.catalog.as_ref();
    let mut notices = Vec::new();
    let mut servers: Vec<Arc<ForeignServer>> = Vec::new();
    for name in names {
        match own_server(catalog, name) {
            Ok(server) if servers.iter().any(|known| known.oid == server.oid) => {}
            Ok(server) => servers.push(server),
            Err(error) if if_exists && error.state == SqlState::UNDEFINED_OBJECT => {
                notices.push(Notice::new(format!("server \"{name}\" does not exist, skipping")));
            }
            Err(error) => return Err(error),
        }
    }
    let tables = servers.iter().flat_map(|server| catalog.foreign_tables(server.oid));
    let tables: Vec<_> = tables.map(Relation::Foreign).collect();
    // A view over a foreign table goes with it.
    let (mut gone, _) = dependency::with_dependents(catalog, tables, true)?;
    notices.extend(cascaded(&servers, &gone, cascade)?);
    drop::orphaned_streams(server, &mut gone);
    let mappings = servers.iter().flat_map(|server| &server.mappings).map(|(oid, _)| *oid);
    let gone_oids =
        servers.iter().map(|server| server.oid).chain(mappings).chain(gone.iter().map(Relation::oid));
    catalog.persist(&gone_oids.map(Change::Remove).collect::<Vec<_>>())?;
    drop::uninstall(server, &gone);
    servers.iter().for_each(|server| catalog.uninstall_server(server.oid));
    notices.extend(gone.iter().flat_map(drop::undelivered));
    Ok(notices)
}

/// What goes with servers: a notice with CASCADE, an error without.
fn cascaded(servers: &[Arc<ForeignServer>], gone: &[Relation], cascade: bool) -> Result<Option<Notice>> {
    let (mut further, mut lines) = (Vec::new(), Vec::new());
    for relation in gone {
        let shown = format!("{} {}", relation.kind(), quote_ident(relation.name()));
        if let Relation::Foreign(table) = relation {
            let used = servers.iter().filter(|server| table.object.uses(server.oid));
            lines.extend(
                used.map(|server| format!("{shown} depends on server {}", quote_ident(&server.object.name))),
            );
        }
        further.push(shown);
    }
    for server in servers {
        let name = quote_ident(&server.object.name);
        for (_, mapping) in &server.mappings {
            let shown = format!("user mapping for {} on server {name}", mapping.user());
            lines.push(format!("{shown} depends on server {name}"));
            further.push(shown);
        }
    }
    if further.is_empty() {
        return Ok(None);
    }
    if !cascade {
        let (what, other) = match servers {
            [one] => (format!("server {}", quote_ident(&one.object.name)), "it"),
            _ => ("desired object(s)".to_string(), "them"),
        };
        let message = format!("cannot drop {what} because other objects depend on {other}");
        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .with_detail(lines.join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    Ok(Some(match further.as_slice() {
        [one] => Notice::new(format!("drop cascades to {one}")),
        many => {
            let detail: Vec<_> = many.iter().map(|object| format!("drop cascades to {object}")).collect();
            Notice::new(format!("drop cascades to {} other objects", many.len()))
                .with_detail(detail.join("\n"))
        }
    }))
}

/// The user of a mapping; `None` is PUBLIC.
fn mapped(user: &MappedUser) -> Result<Option<String>> {
    match user {
        MappedUser::Public => Ok(None),
        MappedUser::Current => Ok(Some(SUPERUSER.to_string())),
        MappedUser::Named(name) if name == SUPERUSER => Ok(Some(name.clone())),
        MappedUser::Named(name) => {
            let message = format!("role \"{name}\" does not exist");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message)
                .with_hint(format!("There is one user, \"{SUPERUSER}\".")))
        }
    }
}

fn create_mapping(
    catalog: &Catalog,
    if_not_exists: bool,
    user: &MappedUser,
    server: &str,
    options: &[ForeignOption],
) -> Result<Vec<Notice>> {
    let user = mapped(user)?;
    let server = own_server(catalog, server)?;
    let mapping = UserMappingObject { server: server.oid, user, options: Options::new(options)? };
    if server.mapping(mapping.user.as_deref()).is_some() {
        let (user, name) = (mapping.user(), &server.object.name);
        let message = format!("user mapping for \"{user}\" already exists for server \"{name}\"");
        return match if_not_exists {
            true => Ok(vec![Notice::new(format!("{message}, skipping"))]),
            false => Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message)),
        };
    }
    let notices = checked(server.wrapper, Place::UserMapping, &mapping.options)?;
    let oid = catalog.allocate_oid();
    catalog.persist(&[Change::PutUserMapping(oid, &mapping)])?;
    let mappings = server.mappings.iter().cloned().chain([(oid, mapping)]).collect();
    catalog.install_server(ForeignServer::new(
        server.oid,
        server.object.clone(),
        mappings,
        &catalog.suspected,
    )?);
    Ok(notices)
}

fn no_mapping(user: Option<&str>, server: &str) -> SqlError {
    let user = user.unwrap_or("public");
    let message = format!("user mapping for \"{user}\" does not exist for server \"{server}\"");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

fn alter_mapping(
    catalog: &Catalog,
    user: &MappedUser,
    server: &str,
    changes: &[OptionChange],
) -> Result<Vec<Notice>> {
    let user = mapped(user)?;
    let server = own_server(catalog, server)?;
    let Some((oid, mapping)) = server.mapping(user.as_deref()) else {
        return Err(no_mapping(user.as_deref(), &server.object.name));
    };
    let mapping = UserMappingObject { options: mapping.options.changed(changes)?, ..mapping.clone() };
    let notices = checked(server.wrapper, Place::UserMapping, &mapping.options)?;
    catalog.persist(&[Change::PutUserMapping(*oid, &mapping)])?;
    let mut mappings = server.mappings.clone();
    mappings.iter_mut().filter(|(known, _)| known == oid).for_each(|(_, old)| *old = mapping.clone());
    catalog.install_server(ForeignServer::new(
        server.oid,
        server.object.clone(),
        mappings,
        &catalog.suspected,
    )?);
    Ok(notices)
}

fn drop_mapping(catalog: &Catalog, if_exists: bool, user: &MappedUser, server: &str) -> Result<Vec<Notice>> {
    let user = mapped(user)?;
    let found = match own_server(catalog, server) {
        Err(error) if if_exists && error.state == SqlState::UNDEFINED_OBJECT => {
            return Ok(vec![Notice::new(format!("{}, skipping", error.message))]);
        }
        found => found?,
    };
    let Some((oid, _)) = found.mapping(user.as_deref()) else {
        let error = no_mapping(user.as_deref(), server);
        return match if_exists {
            true => Ok(vec![Notice::new(format!("{}, skipping", error.message))]),
            false => Err(error),
        };
    };
    catalog.persist(&[Change::Remove(*oid)])?;
    let mappings = found.mappings.iter().filter(|(known, _)| known != oid).cloned().collect();
    catalog.install_server(ForeignServer::new(
        found.oid,
        found.object.clone(),
        mappings,
        &catalog.suspected,
    )?);
    Ok(vec![])
}
