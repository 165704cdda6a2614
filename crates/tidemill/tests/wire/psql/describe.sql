-- What psql's own commands show of streams and continuous views.
\pset format aligned
\d
\d clicks
\d+ clicks
\d hits
\d+ hits
\dv
\dv h*
\dE
\dt
\dS pg_am
\sv hits
\d nothing
\dn
\dn+ public
\du
\dx
\df lower
\df+ pg_size_pretty
\dT text
\dTS json*
\dc
\dO C
\dD
\dL
\dF
\di
\ds
\dm
\dp
\z hits
\ddp
\drds
\dg postgres
\db
\det
\det+
\des
\dew
\deu
\dy
\dRp
\dRs
\dd
\dX
\dAc
\dP
\dl
\l
SELECT relname FROM pg_class WHERE relkind = 'C';
SELECT relname, relkind FROM pg_class c WHERE c.relkind IN ('C', 'f') ORDER BY 1;
