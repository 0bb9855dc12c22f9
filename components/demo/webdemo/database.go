package webdemo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Bounds of one look at the database.
const (
	dbTimeout = 6 * time.Second
	// copyWait is how long the row may take to the replica, and copyPause the time between
	// two looks.
	copyWait  = 2 * time.Second
	copyPause = 20 * time.Millisecond
	// keepRows is how many of the newest rows stay, and pruneEvery how often others go.
	keepRows   = 10_000
	pruneEvery = 1000
)

// database writes and reads through two routes. Each look opens its own connections, so that
// it goes where the routes lead now; nothing is sent twice.
type database struct {
	web Web
	// made: the table is there.
	made atomic.Bool
}

// Database is one row's way through both routes.
type Database struct {
	Row     *Row `json:"row"`
	Master  Side `json:"master"`
	Replica Side `json:"replica"`
	// Writes10s are the writes of the last ten seconds, of all clients.
	Writes10s int `json:"writes_10s"`
	// Error is the first thing that went wrong.
	Error string `json:"error,omitempty"`
}

// Row is the written row.
type Row struct {
	ID int64     `json:"id"`
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// Side is the server behind one route.
type Side struct {
	Route string `json:"route"`
	// Slot that answered, as the server says itself (its setting cadre.slot), and the address
	// at which it met the connection: behind a route that is its own loopback.
	Slot       string `json:"slot"`
	Address    string `json:"address"`
	InRecovery *bool  `json:"in_recovery"`
	// LatencyMS from dialling to the answer that was waited for; its parts.
	LatencyMS float64 `json:"latency_ms"`
	ConnectMS float64 `json:"connect_ms"`
	WriteMS   float64 `json:"write_ms,omitempty"`
	ReadMS    float64 `json:"read_ms"`
	// Looks until the row was there.
	Looks int    `json:"looks"`
	Error string `json:"error,omitempty"`
}

const (
	createTable = `CREATE TABLE IF NOT EXISTS webdemo (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, by text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())`
	insertRow   = `INSERT INTO webdemo (by) VALUES ($1) RETURNING id, by, at`
	// The answering server names itself.
	readRow = `SELECT coalesce(current_setting('cadre.slot', true), ''), coalesce(host(inet_server_addr()) || ':' || inet_server_port(), 'a socket'), pg_is_in_recovery(),
 EXISTS (SELECT FROM webdemo WHERE id = $1), (SELECT count(*) FROM webdemo WHERE at > clock_timestamp() - interval '10 seconds')`
	pruneRows = `DELETE FROM webdemo WHERE id <= $1`
)

// undefinedTable and uniqueViolation are SQLSTATEs: the table was dropped, or two clients made it
// at once.
const (
	undefinedTable  = "42P01"
	uniqueViolation = "23505"
)

func (d *database) writeAndRead(ctx context.Context) Database {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	did := Database{Master: Side{Route: d.web.Master}, Replica: Side{Route: d.web.Replica}}
	if err := d.master(ctx, &did); err != nil {
		did.Master.Error = reason(err)
		did.Error = d.web.Master + ": " + did.Master.Error
		return did
	}
	if err := d.replica(ctx, &did); err != nil {
		did.Replica.Error = reason(err)
		did.Error = fmt.Sprintf("%s: %s (row %d is written)", d.web.Replica, did.Replica.Error, did.Row.ID)
	}
	return did
}

func (d *database) master(ctx context.Context, did *Database) error {
	conn, done, err := d.connect(ctx, &did.Master)
	if err != nil {
		return err
	}
	defer done()
	if !d.made.Load() {
		// Two clients may make it at once: one of them gets the error that it exists.
		if _, err := conn.Exec(ctx, createTable); err != nil && state(err) != uniqueViolation {
			return fmt.Errorf("create the table: %w", err)
		}
		d.made.Store(true)
	}
	start := time.Now()
	row := Row{}
	if err := conn.QueryRow(ctx, insertRow, d.web.Self.Slot).Scan(&row.ID, &row.By, &row.At); err != nil {
		if state(err) == undefinedTable {
			d.made.Store(false)
		}
		return fmt.Errorf("write a row: %w", err)
	}
	did.Row = &row
	did.Master.WriteMS = milliseconds(time.Since(start))
	there, err := d.read(ctx, conn, did, &did.Master)
	if err != nil {
		return fmt.Errorf("read row %d, which is written: %w", row.ID, err)
	}
	if !there {
		return fmt.Errorf("row %d is acknowledged and not there", row.ID)
	}
	if row.ID%pruneEvery == 0 {
		// Another row's turn comes.
		_, _ = conn.Exec(ctx, pruneRows, row.ID-keepRows)
	}
	return nil
}

func (d *database) replica(ctx context.Context, did *Database) error {
	conn, done, err := d.connect(ctx, &did.Replica)
	if err != nil {
		return err
	}
	defer done()
	began := time.Now()
	for {
		there, err := d.read(ctx, conn, did, &did.Replica)
		switch {
		case err != nil:
			return fmt.Errorf("read row %d: %w", did.Row.ID, err)
		case there:
			return nil
		case time.Since(began) > copyWait:
			return fmt.Errorf("row %d did not arrive within %s: the replica lags", did.Row.ID, copyWait)
		}
		pause := time.NewTimer(copyPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}

// connect dials a route; done closes the connection and records the time of the whole way.
func (d *database) connect(ctx context.Context, side *Side) (*pgx.Conn, func(), error) {
	host, port, err := net.SplitHostPort(side.Route)
	number, bad := strconv.ParseUint(port, 10, 16)
	if err := errors.Join(err, bad); err != nil {
		return nil, nil, fmt.Errorf("the route is not <name>:<port>: %w", err)
	}
	config, err := pgx.ParseConfig("sslmode=disable connect_timeout=3")
	if err != nil {
		return nil, nil, err
	}
	config.Host, config.Port, config.User, config.Database = host, uint16(number), d.web.User, d.web.Database
	config.Fallbacks = nil
	// One message each way for a statement, and no name of it that a pooler would have to know.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if d.web.Lookup != nil {
		config.LookupFunc = d.web.Lookup
	}
	config.RuntimeParams = map[string]string{"application_name": d.web.Self.Slot}
	start := time.Now()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	side.ConnectMS = milliseconds(time.Since(start))
	return conn, func() {
		side.LatencyMS = milliseconds(time.Since(start))
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}, nil
}

// read looks for the row, and notes who answered.
func (d *database) read(ctx context.Context, conn *pgx.Conn, did *Database, side *Side) (there bool, err error) {
	start := time.Now()
	side.Looks++
	var standby bool
	if err := conn.QueryRow(ctx, readRow, did.Row.ID).Scan(&side.Slot, &side.Address, &standby, &there, &did.Writes10s); err != nil {
		if state(err) == undefinedTable {
			return false, nil // not even the table has arrived
		}
		return false, err
	}
	side.InRecovery, side.ReadMS = &standby, milliseconds(time.Since(start))
	return there, nil
}

func state(err error) string {
	var told *pgconn.PgError
	if errors.As(err, &told) {
		return told.Code
	}
	return ""
}

// reason describes the error for a page; pgx names the user and every address that it tried.
func reason(err error) string {
	var refused *pgconn.ConnectError
	var told *pgconn.PgError
	switch {
	case errors.As(err, &told):
		return fmt.Sprintf("%s (SQLSTATE %s)", told.Message, told.Code)
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &refused):
		return "does not answer: " + plain(refused).Error()
	default:
		return err.Error()
	}
}
