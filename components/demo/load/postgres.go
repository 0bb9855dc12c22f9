package load

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres is a Target: one table, one row for each write.
type Postgres struct {
	config *pgx.ConnConfig
	table  string
	way    Way
}

// Way is how an application reaches its database.
type Way string

const (
	// Direct: all members are named, and tried in order until one accepts writes
	// (target_session_attrs=read-write). A write is one statement.
	Direct Way = "direct"
	// Route: one name that leads to the leader. A write is one statement, which also returns the
	// server: behind a route the address is the same for every server.
	Route Way = "route"
	// Pooled: a route with a pooler, which gives a connection to the server for each
	// transaction. A write is a transaction: BEGIN, the statement of Route, COMMIT.
	Pooled Way = "pooled"
)

// NewPostgres parses a libpq connection string that may name several hosts. Each way
// writes to a table of its own, so that all may run at once. lookup resolves the hosts'
// names; nil is the system's way.
func NewPostgres(way Way, dsn string, lookup func(ctx context.Context, host string) ([]string, error)) (*Postgres, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("parse the connection string: %w", err)
	}
	// A pooler knows of no prepared statement that has a name.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if lookup != nil {
		config.LookupFunc = lookup
	}
	p := &Postgres{config: config, table: "writes", way: way}
	switch way {
	case Direct:
	case Route, Pooled:
		p.table += "_" + string(way)
	default:
		return nil, fmt.Errorf("%q is no way to the database: use %s, %s or %s", way, Direct, Route, Pooled)
	}
	return p, nil
}

// Prepare creates the table on the leader.
func (p *Postgres) Prepare(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, p.config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer closeConn(ctx, conn)
	_, err = conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+p.table+` (id bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp())`)
	if err != nil {
		return fmt.Errorf("create the table: %w", err)
	}
	return nil
}

// Connect implements Target.
func (p *Postgres) Connect(ctx context.Context) (Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, p.config)
	if err != nil {
		return nil, err
	}
	insert := `INSERT INTO ` + p.table + ` (id) VALUES ($1)`
	if p.way != Direct {
		insert += ` RETURNING coalesce(current_setting('cadre.slot', true), '')`
	}
	return &pgConn{conn: conn, way: p.way, insert: insert, server: conn.PgConn().Conn().RemoteAddr().String()}, nil
}

// Highest is the highest id in the table; 0 when there is none.
func (p *Postgres) Highest(ctx context.Context) (int64, error) {
	conn, err := pgx.ConnectConfig(ctx, p.config)
	if err != nil {
		return 0, fmt.Errorf("connect: %w", err)
	}
	defer closeConn(ctx, conn)
	var highest int64
	if err := conn.QueryRow(ctx, `SELECT coalesce(max(id), 0) FROM `+p.table).Scan(&highest); err != nil {
		return 0, fmt.Errorf("read the highest id: %w", err)
	}
	return highest, nil
}

// IDs implements Target.
func (p *Postgres) IDs(ctx context.Context) (IDs, error) {
	conn, err := pgx.ConnectConfig(ctx, p.config)
	if err != nil {
		return IDs{}, fmt.Errorf("connect: %w", err)
	}
	defer closeConn(ctx, conn)
	rows, err := conn.Query(ctx, `SELECT id FROM `+p.table+` ORDER BY id`)
	if err != nil {
		return IDs{}, fmt.Errorf("read the table: %w", err)
	}
	var ids IDs
	var id int64
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		ids.Add(id)
		return nil
	})
	if err != nil {
		return IDs{}, fmt.Errorf("read the table: %w", err)
	}
	return ids, nil
}

type pgConn struct {
	conn           *pgx.Conn
	way            Way
	insert, server string
}

func (c *pgConn) Write(ctx context.Context, id int64) (string, error) {
	switch c.way {
	case Route:
		return c.writeOn(ctx, c.conn, id)
	case Pooled:
		var server string
		err := pgx.BeginFunc(ctx, c.conn, func(tx pgx.Tx) (err error) {
			server, err = c.writeOn(ctx, tx, id)
			return err
		})
		return server, err
	default:
		_, err := c.conn.Exec(ctx, c.insert, id)
		return c.server, err
	}
}

// writeOn writes id and returns the Slot that ran the statement, where its server has the setting
// cadre.slot; elsewhere the dialled address.
func (c *pgConn) writeOn(ctx context.Context, on interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, id int64) (string, error) {
	var slot string
	if err := on.QueryRow(ctx, c.insert, id).Scan(&slot); err != nil {
		return "", err
	}
	if slot == "" {
		slot = c.server
	}
	return slot, nil
}

func (c *pgConn) Healthy() bool { return !c.conn.IsClosed() }

func (c *pgConn) Close(ctx context.Context) { closeConn(ctx, c.conn) }

func closeConn(ctx context.Context, conn *pgx.Conn) {
	// The goodbye is said even when ctx ended, but a server that died answers none.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
