package load

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres is a Target: one table, one row for each write. Hosts are tried in
// order until one accepts writes (target_session_attrs=read-write).
type Postgres struct{ config *pgx.ConnConfig }

// NewPostgres parses a libpq connection string that may name several hosts.
// lookup resolves their names; nil is the system's way.
func NewPostgres(dsn string, lookup func(ctx context.Context, host string) ([]string, error)) (*Postgres, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("parse the connection string: %w", err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if lookup != nil {
		config.LookupFunc = lookup
	}
	return &Postgres{config: config}, nil
}

// Prepare creates the table on the leader.
func (p *Postgres) Prepare(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, p.config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer closeConn(ctx, conn)
	_, err = conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS writes (id bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp())`)
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
	return &pgConn{conn: conn, server: conn.PgConn().Conn().RemoteAddr().String()}, nil
}

// Highest is the highest id in the table; 0 when there is none.
func (p *Postgres) Highest(ctx context.Context) (int64, error) {
	conn, err := pgx.ConnectConfig(ctx, p.config)
	if err != nil {
		return 0, fmt.Errorf("connect: %w", err)
	}
	defer closeConn(ctx, conn)
	var highest int64
	if err := conn.QueryRow(ctx, `SELECT coalesce(max(id), 0) FROM writes`).Scan(&highest); err != nil {
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
	rows, err := conn.Query(ctx, `SELECT id FROM writes ORDER BY id`)
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
	conn   *pgx.Conn
	server string
}

func (c *pgConn) Write(ctx context.Context, id int64) (string, error) {
	_, err := c.conn.Exec(ctx, `INSERT INTO writes (id) VALUES ($1)`, id)
	return c.server, err
}

func (c *pgConn) Healthy() bool { return !c.conn.IsClosed() }

func (c *pgConn) Close(ctx context.Context) { closeConn(ctx, c.conn) }

func closeConn(ctx context.Context, conn *pgx.Conn) {
	// The goodbye is said even when ctx ended, but a server that died answers none.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
