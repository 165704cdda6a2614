// The JDBC driver against a server: java -cp postgresql.jar Jdbc.java PORT

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.*;
import java.time.*;
import java.util.*;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

public class Jdbc {
    static String port;

    interface Check {
        void run() throws Exception;
    }

    static Connection connect(String options) throws SQLException {
        String url = "jdbc:postgresql://127.0.0.1:" + port + "/tidemill?user=postgres&sslmode=disable" + options;
        return DriverManager.getConnection(url);
    }

    static void same(Object wanted, Object got) {
        boolean equal = wanted instanceof byte[] bytes ? Arrays.equals(bytes, (byte[]) got) : Objects.equals(wanted, got);
        if (!equal) throw new AssertionError("wanted " + wanted + ", got " + got);
    }

    static void connection() throws Exception {
        try (Connection c = connect("&ApplicationName=tests")) {
            same(true, c.isValid(5));
            same(15, c.getMetaData().getDatabaseMajorVersion());
            same("tidemill", c.getCatalog());
            same("public", c.getSchema());
            c.setReadOnly(false);
            try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SHOW application_name")) {
                r.next();
                same("tests", r.getString(1));
            }
        }
    }

    // Simple protocol, extended in text, and in binary after the fifth execution.
    static void values() throws Exception {
        for (String mode : List.of("simple", "extended", "extendedForPrepared", "extendedCacheEverything")) {
            try (Connection c = connect("&preferQueryMode=" + mode)) {
                String sql = "SELECT ?::bool, ?::int2, ?::int4, ?::int8, ?::float4, ?::float8, ?::numeric, ?::text, ?::bytea,"
                    + " ?::date, ?::time, ?::timestamp, ?::timestamptz, ?::uuid, ?::int4[]";
                try (PreparedStatement p = c.prepareStatement(sql)) {
                    for (int i = 0; i < 8; i++) {
                        UUID uuid = new UUID(7, i);
                        LocalDateTime at = LocalDateTime.of(2020, 2, 29, 12, 30, i, 123_000);
                        OffsetDateTime instant = at.atOffset(ZoneOffset.UTC);
                        byte[] bytes = {0, (byte) 255, (byte) i};
                        p.setBoolean(1, i % 2 == 0);
                        p.setShort(2, (short) -i);
                        p.setInt(3, Integer.MAX_VALUE - i);
                        p.setLong(4, Long.MIN_VALUE + i);
                        p.setFloat(5, 1.5f * i);
                        p.setDouble(6, 0.1 * i);
                        p.setBigDecimal(7, new BigDecimal("12345678901234567890.500" + i));
                        p.setString(8, "äöü '\\ " + i);
                        p.setBytes(9, bytes);
                        p.setObject(10, at.toLocalDate());
                        p.setObject(11, at.toLocalTime());
                        p.setObject(12, at);
                        p.setObject(13, instant);
                        p.setObject(14, uuid);
                        p.setArray(15, c.createArrayOf("int4", new Object[] {1, null, i}));
                        try (ResultSet r = p.executeQuery()) {
                            r.next();
                            same(i % 2 == 0, r.getBoolean(1));
                            same((short) -i, r.getShort(2));
                            same(Integer.MAX_VALUE - i, r.getInt(3));
                            same(Long.MIN_VALUE + i, r.getLong(4));
                            same(1.5f * i, r.getFloat(5));
                            same(0.1 * i, r.getDouble(6));
                            same(new BigDecimal("12345678901234567890.500" + i), r.getBigDecimal(7));
                            same("äöü '\\ " + i, r.getString(8));
                            same(bytes, r.getBytes(9));
                            same(at.toLocalDate(), r.getObject(10, LocalDate.class));
                            same(at.toLocalTime(), r.getObject(11, LocalTime.class));
                            same(at, r.getObject(12, LocalDateTime.class));
                            same(instant, r.getObject(13, OffsetDateTime.class));
                            same(uuid, r.getObject(14));
                            same(Arrays.asList(1, null, i), Arrays.asList((Object[]) r.getArray(15).getArray()));
                            ResultSetMetaData meta = r.getMetaData();
                            same(15, meta.getColumnCount());
                            same("int4", meta.getColumnTypeName(3));
                            same(Types.NUMERIC, meta.getColumnType(7));
                            same(Types.TIMESTAMP, meta.getColumnType(12));
                        }
                    }
                }
            }
        }
    }

    static void batches() throws Exception {
        try (Connection c = connect("&reWriteBatchedInserts=true"); Statement s = c.createStatement()) {
            s.execute("CREATE STREAM j (k int, t text, x float8, at timestamptz)");
            s.execute("CREATE CONTINUOUS VIEW jv AS SELECT k, count(*) AS n, sum(x) AS s FROM j GROUP BY k");
            try (PreparedStatement p = c.prepareStatement("INSERT INTO j (k, t, x, at) VALUES (?, ?, ?, ?)")) {
                for (int i = 0; i < 1000; i++) {
                    p.setInt(1, i % 3);
                    if (i % 2 == 0) p.setString(2, "t" + i);
                    else p.setNull(2, Types.VARCHAR);
                    p.setDouble(3, 0.5);
                    p.setTimestamp(4, new Timestamp(1_600_000_000_000L + i));
                    p.addBatch();
                }
                int[] counts = p.executeBatch();
                same(1000, counts.length);
            }
            s.addBatch("INSERT INTO j (k) VALUES (7)");
            s.addBatch("INSERT INTO j (k) VALUES (7), (7)");
            same(List.of(1, 2), Arrays.stream(s.executeBatch()).boxed().toList());
            same("0=334,1=333,2=333,7=3", view(s, "SELECT k, n FROM jv ORDER BY k"));
        }
    }

    static String view(Statement s, String sql) throws SQLException {
        StringJoiner rows = new StringJoiner(",");
        try (ResultSet r = s.executeQuery(sql)) {
            while (r.next()) rows.add(r.getString(1) + "=" + r.getString(2));
        }
        return rows.toString();
    }

    static void transactions() throws Exception {
        try (Connection c = connect(""); Statement s = c.createStatement()) {
            c.setAutoCommit(false);
            c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
            s.executeUpdate("INSERT INTO j (k) VALUES (20)");
            c.rollback();
            same(2, s.executeUpdate("INSERT INTO j (k) VALUES (21), (21)"));
            c.commit();
            same("21=2", view(s, "SELECT k, n FROM jv WHERE k >= 20"));
            try {
                s.executeQuery("SELECT nope FROM jv");
                throw new AssertionError("no such column");
            } catch (SQLException e) {
                same("42703", e.getSQLState());
            }
            c.rollback();
            // A cursor on the wire: rows in portions of ten.
            try (Statement f = c.createStatement()) {
                f.setFetchSize(10);
                long sum = 0;
                try (ResultSet r = f.executeQuery("SELECT x FROM generate_series(1, 1000) AS x")) {
                    while (r.next()) sum += r.getLong(1);
                }
                same(500_500L, sum);
            }
            c.commit();
            try (Statement m = c.createStatement()) {
                m.setMaxRows(3);
                int rows = 0;
                try (ResultSet r = m.executeQuery("SELECT x FROM generate_series(1, 1000) AS x")) {
                    while (r.next()) rows++;
                }
                same(3, rows);
            }
        }
    }

    static void copies() throws Exception {
        try (Connection c = connect(""); Statement s = c.createStatement()) {
            CopyManager copy = c.unwrap(PGConnection.class).getCopyAPI();
            byte[] rows = "30\ta\t1.5\n30\t\\N\t2\n".repeat(500).getBytes(StandardCharsets.UTF_8);
            same(1000L, copy.copyIn("COPY j (k, t, x) FROM STDIN", new ByteArrayInputStream(rows)));
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            same(1L, copy.copyOut("COPY (SELECT k, n, s FROM jv WHERE k = 30) TO STDOUT WITH CSV", out));
            same("30,1000,1750\n", out.toString(StandardCharsets.UTF_8));
            try {
                copy.copyIn("COPY j (k) FROM STDIN", new ByteArrayInputStream("x\n".getBytes(StandardCharsets.UTF_8)));
                throw new AssertionError("not a number");
            } catch (SQLException e) {
                same("22P02", e.getSQLState());
            }
        }
    }

    static void cancelling() throws Exception {
        try (Connection c = connect(""); Statement s = c.createStatement()) {
            s.setQueryTimeout(1);
            try {
                s.executeQuery("SELECT count(*) FROM generate_series(1, 100000000) AS a, generate_series(1, 100000) AS b");
                throw new AssertionError("this takes years");
            } catch (SQLException e) {
                same("57014", e.getSQLState());
            }
            same("1=1", view(s, "SELECT 1, 1"));
        }
    }

    public static void main(String[] args) throws Exception {
        port = args[0];
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("connection", Jdbc::connection);
        checks.put("values", Jdbc::values);
        checks.put("batches", Jdbc::batches);
        checks.put("transactions", Jdbc::transactions);
        checks.put("copies", Jdbc::copies);
        checks.put("cancelling", Jdbc::cancelling);
        for (var check : checks.entrySet()) {
            check.getValue().run();
            System.out.println("ok " + check.getKey());
        }
    }
}
