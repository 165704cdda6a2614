-- Plain tables, as psql shows them.
\pset format aligned
CREATE TABLE turbine (id int NOT NULL, name varchar(20) NOT NULL, power numeric(8,2) DEFAULT 0, built date DEFAULT '2020-01-01', height int DEFAULT -1, blades int DEFAULT 1 + 2, note text DEFAULT 'none', tags text[], on_line bool DEFAULT true);
CREATE TABLE visit (turbine int NOT NULL, at timestamptz NOT NULL DEFAULT now(), by text DEFAULT current_user);
\d
\dt
\d turbine
\d visit
INSERT INTO turbine (id, name) VALUES (1, 'north'), (2, 'south');
INSERT INTO turbine (id, name, note) VALUES (3, 'east', DEFAULT), (4, 'west', 'rusty');
INSERT INTO turbine (id, name, note) VALUES (5, 'spare', DEFAULT), (1 + 5, lower('MAST'), NULL);
INSERT INTO visit VALUES (1), (2);
INSERT INTO visit VALUES (3, DEFAULT, DEFAULT), (4, '2020-01-01', upper('me'));
SELECT turbine, at BETWEEN now() - interval '1 minute' AND now() AS now, by FROM visit ORDER BY 1;
INSERT INTO turbine VALUES (7, 'dam', 1.005);
INSERT INTO turbine (name, id) SELECT 'row ' || x, x FROM generate_series(10, 12) AS x;
SELECT id, name, power, built, height, blades, note, tags, on_line FROM turbine ORDER BY id;
COPY turbine (id, name) FROM stdin;
20	copied
21	too
\.
COPY turbine (id, name) FROM stdin;
22	copied
23	\N
\.
UPDATE turbine AS t SET power = t.power + height, note = NULL, tags = '{a,b}' WHERE t.name LIKE 'row%';
DELETE FROM turbine WHERE id = 5 OR id IN (SELECT turbine FROM visit WHERE turbine < 3);
SELECT id, name, power, note, tags FROM turbine ORDER BY id;
COPY turbine (id, name, note) TO stdout CSV HEADER;
CREATE TABLE tall AS SELECT id, name, power FROM turbine WHERE id > 9;
\d tall
SELECT * FROM tall ORDER BY id;
CREATE TABLE pairs (a, b) AS SELECT 1, 'x' WITH NO DATA;
CREATE TABLE IF NOT EXISTS pairs AS SELECT 1;
CREATE TABLE IF NOT EXISTS pairs (x int);
\d pairs
INSERT INTO pairs DEFAULT VALUES;
SELECT * FROM pairs;
SELECT table_name, table_type, is_insertable_into FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1;
SELECT column_name, column_default, is_nullable, data_type FROM information_schema.columns WHERE table_name = 'turbine';
SELECT relname, relkind, relnatts FROM pg_class WHERE oid = 'turbine'::regclass;
SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1;
TRUNCATE TABLE tall, pairs;
SELECT count(*) FROM tall;
DROP TABLE tall, pairs;
DROP TABLE IF EXISTS tall;
-- Mistakes.
INSERT INTO turbine (id) VALUES (8);
INSERT INTO turbine VALUES (8, 'a name that is longer than that');
INSERT INTO turbine VALUES (1, 'a'), (2);
INSERT INTO turbine (id, nope) VALUES (1, 2);
INSERT INTO turbine (id, name) VALUES (1, 'a') RETURNING id;
INSERT INTO turbine (id, name) VALUES (1, 'a') ON CONFLICT (id) DO NOTHING;
CREATE TABLE turbine (x int);
CREATE TABLE t (a int, a text);
CREATE TABLE t (a int PRIMARY KEY);
CREATE TABLE t (a int, b int REFERENCES turbine);
CREATE TABLE t (a int, CHECK (a > 0));
CREATE TABLE t (a serial);
CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY);
CREATE TEMP TABLE t (a int);
CREATE TABLE t (a int) WITH (fillfactor = 70);
CREATE TABLE t (a int, b int DEFAULT a + 1);
CREATE TABLE t (a int DEFAULT 'x');
CREATE TABLE t (a int DEFAULT 'x' || 'y');
CREATE TABLE t (a int DEFAULT (SELECT 1));
CREATE TABLE t (a int DEFAULT count(*));
CREATE TABLE t (a int DEFAULT generate_series(1, 2));
CREATE TABLE t (a int NULL NOT NULL);
CREATE TABLE t (a int DEFAULT 1 DEFAULT 2);
CREATE CONTINUOUS VIEW v AS SELECT count(*) FROM turbine;
DROP TABLE tall;
DROP STREAM turbine;
DROP VIEW turbine;
TRUNCATE tall;
UPDATE turbine SET height = note;
UPDATE turbine SET nope = 1;
UPDATE turbine SET height = 1 WHERE nope = 1;
UPDATE turbine SET (height, blades) = (1, 2);
UPDATE turbine SET height = 1 RETURNING id;
UPDATE nothing SET height = 1;
DELETE FROM turbine USING nothing WHERE id = turbine;
DELETE FROM turbine WHERE id;
ALTER VIEW turbine RENAME TO t;
