-- Queries in the manner of Grafana, Metabase, DBeaver, pgAdmin, SQLAlchemy, Npgsql, Django and Rails on the catalogs.
\set ON_ERROR_STOP off
-- Which version, which schema, which user.
SELECT current_setting('server_version_num')::int / 100 AS version;
SELECT current_schema(), current_schemas(true), current_user = session_user AS same, current_database(), current_role;
SELECT set_config('application_name', 'catalog', false);
SELECT current_setting('application_name');
SELECT current_setting('no.such', true) IS NULL, pg_is_in_recovery(), pg_client_encoding();
-- Relations on the search path first.
SELECT CASE WHEN quote_ident(table_schema) IN (SELECT trim(s[i]) FROM generate_series(1, array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i, string_to_array(current_setting('search_path'), ',') s)
            THEN quote_ident(table_name) ELSE table_schema || '.' || table_name END AS relation
FROM information_schema.tables WHERE table_schema NOT IN ('information_schema', 'pg_catalog', 'pipelinedb')
ORDER BY CASE WHEN table_schema IN (SELECT unnest(current_schemas(false))) THEN 0 ELSE 1 END, 1;
-- Relations with comments and counts.
SELECT n.nspname, c.relname, CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'f' THEN 'FOREIGN TABLE' ELSE NULL END AS type, d.description, s.n_live_tup
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON c.relnamespace = n.oid
LEFT JOIN pg_catalog.pg_description d ON c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
LEFT JOIN pg_stat_user_tables s ON n.nspname = s.schemaname AND c.relname = s.relname
WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'pipelinedb') AND c.relkind IN ('r', 'p', 'v', 'f', 'm') ORDER BY 3, 1, 2;
-- Columns with keys.
SELECT c.table_name, c.column_name, c.data_type, c.udt_name, c.numeric_precision, c.numeric_scale, c.character_maximum_length, c.datetime_precision, pk.column_name IS NOT NULL AS key,
       col_description(format('%I.%I', c.table_schema, c.table_name)::regclass::oid, c.ordinal_position) AS comment
FROM information_schema.columns c LEFT JOIN (SELECT tc.table_schema, tc.table_name, kc.column_name FROM information_schema.table_constraints tc
  JOIN information_schema.key_column_usage kc ON tc.constraint_name = kc.constraint_name WHERE tc.constraint_type = 'PRIMARY KEY') pk
ON c.table_schema = pk.table_schema AND c.table_name = pk.table_name AND c.column_name = pk.column_name
WHERE c.table_schema = 'public' ORDER BY c.table_name, c.ordinal_position;
-- All columns of a catalog beside one of them, system columns.
SELECT n.oid, n.*, d.description FROM pg_namespace n LEFT JOIN pg_description d ON d.objoid = n.oid AND d.classoid = n.tableoid WHERE n.nspname = 'public';
SELECT relname, n_tup_ins, n_live_tup FROM pg_stat_user_tables ORDER BY 1;
SELECT CASE WHEN true THEN 'hits'::regclass END, coalesce(NULL, 23::regtype), (SELECT 'int8'::regtype);
SELECT c.relname, c.tableoid::regclass, c.xmin FROM pg_class c WHERE c.oid = 'hits'::regclass;
-- Attributes: a correlated subquery with a condition on the outer row alone, another with an inequality.
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.atttypid::regtype,
       (SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef),
       (SELECT c.collname FROM pg_collation c, pg_type t WHERE c.oid = a.attcollation AND t.oid = a.atttypid AND a.attcollation <> t.typcollation)
FROM pg_attribute a WHERE a.attrelid = '"clicks"'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum;
-- Keys and indexes.
SELECT t.relname, (information_schema._pg_expandarray(i.indkey)).n, trim(both '"' FROM pg_get_indexdef(i.indexrelid, 1, false)) FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid;
SELECT (information_schema._pg_expandarray(ARRAY[5, 7])).x, (information_schema._pg_expandarray(ARRAY[5, 7])).n;
SELECT c.conname, ARRAY(SELECT a.attname FROM unnest(c.conkey) WITH ORDINALITY k(number, place) JOIN pg_attribute a ON a.attnum = k.number WHERE a.attrelid = c.conrelid ORDER BY k.place),
       (SELECT f.relname || '.' || fa.attname FROM pg_attribute fa JOIN pg_class f ON fa.attrelid = f.oid WHERE fa.attrelid = c.confrelid AND fa.attnum = c.confkey[1])
FROM pg_constraint c;
-- Types as drivers load them.
SELECT t.typname, t.typtype, CASE WHEN p.proname = 'array_recv' THEN t.typelem::regtype END AS element, p.proname
FROM pg_type t LEFT JOIN pg_proc p ON p.oid = t.typreceive LEFT JOIN pg_range r ON r.rngtypid = t.oid
WHERE t.typname IN ('int4', '_int4', 'numeric', 'jsonb', 'oidvector', 'record') ORDER BY 1;
SELECT typname, oid, typarray, oid::regtype::text, typdelim FROM pg_type WHERE oid = to_regtype('int4');
SELECT t.typname FROM pg_type t WHERE t.typinput = 'array_in(cstring,oid,integer)'::regprocedure AND t.typname LIKE '\_int_' ORDER BY 1;
-- Roles: a recursive query within a subquery that refers to the outer one.
SELECT r.rolname, 'pg_signal_backend' = ANY (ARRAY(WITH RECURSIVE m(oid, rolname) AS (SELECT i.oid, i.rolname FROM pg_roles i WHERE i.oid = r.oid
  UNION ALL SELECT a.roleid, g.rolname FROM m JOIN pg_auth_members a ON a.member = m.oid JOIN pg_roles g ON g.oid = a.roleid) SELECT rolname FROM m)) AS signals,
  ARRAY(SELECT b.rolname FROM pg_auth_members m JOIN pg_roles b ON m.roleid = b.oid WHERE m.member = r.oid) AS memberof
FROM pg_roles r WHERE r.rolname = current_user;
SELECT has_database_privilege(oid, 'CREATE'), has_schema_privilege('public', 'usage'), has_table_privilege('hits', 'select'), has_table_privilege(0, 'select') FROM pg_database;
SELECT has_table_privilege('hits', 'fly');
SELECT has_table_privilege('nothing', 'select');
-- Names of objects.
SELECT 'hits'::regclass, 'public.hits'::regclass::oid = 'hits'::regclass AS same, 'pg_class'::regclass::oid, 'information_schema.tables'::regclass, 1043::regtype, 'int4[]'::regtype::oid, 0::regclass, 999999::regclass;
SELECT 'nothing'::regclass;
SELECT 'nothing'::regtype;
SELECT 'nothing'::regproc;
SELECT 'nothing'::regnamespace;
SELECT to_regclass('nothing'), to_regclass('hits'), to_regtype('nothing'), to_regrole('postgres');
SELECT pg_get_viewdef('hits'::regclass), pg_get_userbyid(10), pg_get_userbyid(11), pg_table_is_visible('pg_class'::regclass), pg_table_is_visible('information_schema.tables'::regclass), pg_table_is_visible(0);
-- Sessions, settings, keywords.
SELECT count(*), min(state), min(query) FROM pg_stat_activity WHERE pid = pg_backend_pid();
SELECT name, setting, vartype FROM pg_settings WHERE name = 'standard_conforming_strings';
SELECT 'stats' AS chart, row_to_json(t) AS data FROM (SELECT (SELECT count(*) FROM pg_database) AS "Databases", 1 AS one) t;
SELECT word, catcode FROM pg_get_keywords() WHERE word <> ALL ('{select,from}'::text[]) ORDER BY 1 LIMIT 2;
SELECT pg_size_pretty(pg_total_relation_size('clicks')), pg_database_size(current_database()) > 0 AS there_is_something, pg_sleep(0);
-- Subqueries that refer to the outer query.
SELECT a, (SELECT b FROM (VALUES (1, 10), (2, 20)) u(x, b) WHERE u.x < t.a ORDER BY b DESC LIMIT 1), (SELECT count(*) FROM (VALUES (1), (2)) u(x) WHERE u.x < t.a),
       EXISTS (SELECT FROM (VALUES (1), (2)) u(x) WHERE u.x < t.a), ARRAY(SELECT x FROM (VALUES (1), (2)) u(x) WHERE u.x < t.a ORDER BY x DESC),
       a IN (SELECT x + 1 FROM (VALUES (1), (NULL)) u(x))
FROM (VALUES (1), (2), (3), (NULL)) t(a) ORDER BY a;
SELECT a, (SELECT b FROM (VALUES (1, 10), (2, 20)) u(x, b) WHERE u.x < t.a) FROM (VALUES (3)) t(a);
SELECT a, l.* FROM (VALUES (1), (3)) t(a) LEFT JOIN LATERAL (SELECT x, x * t.a AS y FROM (VALUES (1), (2)) u(x) WHERE u.x < t.a) l ON true ORDER BY 1, 2;
SELECT a, n, i FROM (VALUES (ARRAY['x', 'y']), (ARRAY['z'])) t(a) CROSS JOIN LATERAL unnest(t.a) WITH ORDINALITY AS u(n, i) ORDER BY 2;
