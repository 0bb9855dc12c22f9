package pooler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// readyWithin is how long PgBouncer may take until it answers.
	readyWithin = 5 * time.Second
	readyLook   = 10 * time.Millisecond
	// lookEvery paces the looks at the console and at the passwords' files, and silentFor is how
	// long the console may be silent until PgBouncer counts as stuck.
	lookEvery = time.Second
	silentFor = 10 * time.Second
	// commandWithin bounds a command that PgBouncer answers at once.
	commandWithin = time.Second
	// warmWithin bounds the login that makes a pool known to a new PgBouncer.
	warmWithin = 2 * time.Second
	maxPools   = 64
)

// Stats are the figures of a Pooler. Counters count since it was made; the other fields are present
// values.
type Stats struct {
	// Up reports that PgBouncer answers. Problem is the reason if it does not, or another fault.
	Up      bool
	Problem string
	// Paused reports that PgBouncer is paused, or about to be.
	Paused bool
	// Clients are connected, Waiting of them want a server, Servers are connected.
	Clients, Waiting, Servers int
	// Starts counts the starts of PgBouncer, TakenOver the running processes that were taken over,
	// Reloads the reloads of its passwords.
	Starts, TakenOver, Reloads uint64
	// Pauses succeeded, PausesFailed did not in time, PausesExpired ended by their limit.
	Pauses, PausesFailed, PausesExpired uint64
}

// pool is one of PgBouncer's pools: servers of a database, logged in as a user.
type pool struct{ database, user string }

// Pooler runs PgBouncer for one route. Make it with [New]; safe for concurrent use.
type Pooler struct {
	cfg Config
	log *slog.Logger
	// turn is held by the goroutine that pauses or resumes PgBouncer; capacity 1.
	turn chan struct{}

	mu      sync.Mutex
	users   map[string]string // guarded by mu
	running bool              // guarded by mu; Run has not begun to end
	stats   Stats             // guarded by mu
	pools   []pool            // guarded by mu; as last seen
	pause   *pause            // guarded by mu; nil: not paused, and nothing is owed
	problem string            // guarded by mu; of the passwords
	owed    bool              // guarded by mu; PgBouncer has not read the newest passwords
	last    *process          // guarded by mu; the newest that runs, or ran
	parts   sync.WaitGroup    // Run waits for these; grows under mu while running
}

// New makes a Pooler; the error lists all faults of cfg.
func New(cfg Config) (*Pooler, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("pooler of route %s: %w", cfg.Route, err)
	}
	return &Pooler{cfg: cfg, log: cfg.Log.With("route", cfg.Route), users: cfg.Users, turn: make(chan struct{}, 1)}, nil
}

// SetUsers replaces the users, which takes effect within a second.
func (p *Pooler) SetUsers(users map[string]string) error {
	if err := checkUsers(users); err != nil {
		return fmt.Errorf("pooler of route %s: %w", p.cfg.Route, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users = maps.Clone(users)
	return nil
}

// Stats returns the present figures.
func (p *Pooler) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.stats
	out.Paused = p.pause != nil
	if out.Problem == "" {
		out.Problem = p.problem
	}
	return out
}

// Run runs PgBouncer until ctx ends: it takes over and first resumes a running PgBouncer, and
// restarts a dead PgBouncer. When ctx ends, Run resumes PgBouncer and leaves it running for the next
// worker; [Pooler.End] ends it.
func (p *Pooler) Run(ctx context.Context) error {
	if err := p.cfg.prepare(); err != nil {
		return err
	}
	pipe, err := os.OpenFile(p.cfg.folder().path(logPipe), os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open pgbouncer's log: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer p.parts.Wait()
	defer pipe.Close() //nolint:errcheck // read only
	defer cancel()
	p.mu.Lock()
	p.running = true
	p.parts.Go(func() { p.passLog(ctx, pipe) })
	p.mu.Unlock()
	defer p.stop(context.WithoutCancel(ctx))
	var again backoff
	for {
		began := time.Now()
		err := p.serve(ctx)
		p.down(err)
		if ctx.Err() != nil {
			return nil
		}
		wait := again.after(time.Since(began))
		p.log.Warn("a pooler ended, it is restarted", "error", err, "wait", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// stop ends the work of a pause, before Run returns.
func (p *Pooler) stop(ctx context.Context) {
	p.mu.Lock()
	p.running = false
	paused := p.pause != nil
	p.mu.Unlock()
	if !paused {
		return
	}
	if _, err := p.Resume(ctx); err != nil {
		p.log.Error("a pooler may be left paused", "error", err)
	}
	p.endPause(nil)
}

// End ends PgBouncer and removes its files. Run must not be under way.
func (p *Pooler) End() error {
	var errs []error
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()
	if last != nil && !last.ended() {
		errs = append(errs, last.end()) // it may not have written its number down yet
	}
	if running := p.cfg.running(); running != nil {
		errs = append(errs, running.end())
	}
	return errors.Join(append(errs, os.RemoveAll(string(p.cfg.folder())))...)
}

// serve has one PgBouncer until it or ctx ends.
func (p *Pooler) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.writeUsers()
	changed, err := p.cfg.put(iniFile, p.cfg.ini())
	if err != nil {
		return err
	}
	proc := p.cfg.running()
	if proc != nil && changed {
		p.log.Info("a pooler that runs with other settings is ended")
		if err := proc.end(); err != nil {
			return err
		}
		proc = nil
	}
	taken := proc != nil
	if taken {
		p.parts.Go(func() { proc.watch(ctx) }) // Run is under way, so parts is not waited for
	} else if proc, err = p.cfg.start(); err != nil {
		return err
	}
	p.mu.Lock()
	p.last = proc
	p.mu.Unlock()
	if err := p.ready(ctx, proc, taken); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return errors.Join(err, proc.end())
	}
	p.up(taken, proc.pid)
	if n := proc.openFiles(); n > 0 && n < maxClients*2 {
		p.log.Warn("a pooler may open fewer files than its clients need: raise the container's limit (nofile)", "limit", n)
	}
	if !taken {
		p.parts.Go(func() { p.warm(ctx) })
	}
	return p.look(ctx, proc)
}

// ready returns when PgBouncer accepts connections, paused if a pause is due.
func (p *Pooler) ready(ctx context.Context, proc *process, taken bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("pgbouncer does not answer within %v", readyWithin))
	defer cancel()
	tick := time.NewTicker(readyLook)
	defer tick.Stop()
	for {
		c, err := p.console(ctx)
		if err == nil {
			defer c.close()
			return p.settle(ctx, c, taken)
		}
		select {
		case <-tick.C:
		case <-proc.done:
			return errEnded
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// settle brings a PgBouncer that answers into the state that it should have.
func (p *Pooler) settle(ctx context.Context, c *client, taken bool) error {
	if taken {
		// Resume first: the worker that paused it is gone.
		if err := resume(ctx, c); err != nil {
			return err
		}
		// Then reload: the previous worker may have written files that PgBouncer has not read.
		// Under the old rules PgBouncer still trusts a user that has a password now.
		p.mu.Lock()
		p.owed = true
		p.mu.Unlock()
		if err := p.reload(ctx, c); err != nil {
			return err
		}
	} else {
		p.mu.Lock()
		p.owed = false // it has just read them
		p.mu.Unlock()
	}
	// Without its address it would run on: it only warns.
	if err := answersAt(ctx, p.cfg.Address.String()); err != nil {
		return fmt.Errorf("pgbouncer does not listen for the route: %w", err)
	}
	p.pauseAgain(ctx)
	return nil
}

var errEnded = errors.New("pgbouncer ended")

// look watches PgBouncer and the passwords until one of them, or ctx, ends.
func (p *Pooler) look(ctx context.Context, proc *process) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	answered := time.Now()
	for {
		select {
		case <-proc.done:
			return errEnded
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := p.lookOnce(ctx)
		switch {
		case err == nil:
			answered = time.Now()
		case ctx.Err() != nil, proc.ended():
		case time.Since(answered) > silentFor:
			return errors.Join(fmt.Errorf("its console has not answered for %v: %w", silentFor, err), proc.end())
		}
	}
}

func (p *Pooler) lookOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, commandWithin, errSilent)
	defer cancel()
	p.writeUsers()
	c, err := p.console(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	if err := p.reload(ctx, c); err != nil {
		return err
	}
	rows, err := c.query(ctx, "SHOW POOLS")
	if err != nil {
		return err
	}
	p.note(rows)
	return nil
}

// reload has PgBouncer read passwords that it does not know.
func (p *Pooler) reload(ctx context.Context, c *client) error {
	p.mu.Lock()
	owed := p.owed
	p.mu.Unlock()
	if !owed {
		return nil
	}
	if _, err := c.query(ctx, "RELOAD"); err != nil {
		return err
	}
	p.mu.Lock()
	p.owed = false
	p.stats.Reloads++
	p.mu.Unlock()
	p.log.Info("a pooler has read its users and passwords again")
	return nil
}

var errSilent = fmt.Errorf("pgbouncer's console does not answer within %v", commandWithin)

func (p *Pooler) console(ctx context.Context) (*client, error) {
	return login(ctx, "unix", p.cfg.folder().socket(p.cfg.Address.Port()), admin, console)
}

// writeUsers updates the files with the passwords and the rules. It omits users whose password is
// unreadable and reports them as a problem: the other users can work.
func (p *Pooler) writeUsers() {
	p.mu.Lock()
	from := p.users
	p.mu.Unlock()
	text := ""
	changed, err := p.putUsers(from)
	if err != nil {
		text = err.Error()
	}
	p.mu.Lock()
	before := p.problem
	p.problem = text
	p.owed = p.owed || changed
	p.mu.Unlock()
	if text != "" && text != before {
		p.log.Warn("a pooler's users are not complete", "error", text)
	}
}

// putUsers writes both files, and reports whether PgBouncer has not read one of them.
func (p *Pooler) putUsers(from map[string]string) (changed bool, err error) {
	// The rules come first: PgBouncer reads the passwords on its own, and a user with a new
	// password must not log in under the old rule, which trusted the user.
	changed, err = p.cfg.put(hbaFile, hba(from))
	if err != nil {
		return false, err
	}
	users, err := readUsers(from)
	other, writeErr := p.cfg.put(usersFile, userList(users))
	return changed || other, errors.Join(err, writeErr)
}

// note records the console's rows about the pools.
func (p *Pooler) note(rows []map[string]string) {
	var (
		pools                     []pool
		clients, waiting, servers int
	)
	for _, row := range rows {
		if row["database"] == console {
			continue
		}
		active, connected := number(row, "cl_active"), 0
		for _, state := range []string{"sv_active", "sv_idle", "sv_used", "sv_tested"} {
			connected += number(row, state)
		}
		clients += active + number(row, "cl_waiting")
		waiting += number(row, "cl_waiting")
		servers += connected
		// A pool without either belongs to a client with a wrong password, or is long unused.
		if active+connected > 0 && len(pools) < maxPools {
			pools = append(pools, pool{database: row["database"], user: row["user"]})
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Clients, p.stats.Waiting, p.stats.Servers = clients, waiting, servers
	if len(pools) > 0 {
		p.pools = pools
	}
}

func number(row map[string]string, column string) int {
	n, _ := strconv.Atoi(row[column])
	return n
}

// warm logs in once for each pool of the previous PgBouncer. A pool that has talked to its server
// lets clients in even while it is paused; until then their connect waits. warm uses the socket,
// where the agent needs no user's password.
func (p *Pooler) warm(ctx context.Context) {
	p.mu.Lock()
	pools := slices.Clone(p.pools)
	p.mu.Unlock()
	for _, one := range pools {
		if ctx.Err() != nil {
			return
		}
		within, cancel := context.WithTimeout(ctx, warmWithin)
		if c, err := login(within, "unix", p.cfg.folder().socket(p.cfg.Address.Port()), one.user, one.database); err == nil {
			c.close()
		}
		cancel()
	}
}

func (p *Pooler) up(taken bool, pid int) {
	p.mu.Lock()
	p.stats.Up, p.stats.Problem = true, ""
	if taken {
		p.stats.TakenOver++
	} else {
		p.stats.Starts++
	}
	p.mu.Unlock()
	if taken {
		p.log.Info("a pooler of the previous worker is taken over, and resumed", "pid", pid)
	} else {
		p.log.Info("a pooler runs", "pid", pid, "address", p.cfg.Address.String())
	}
}

func (p *Pooler) down(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Up, p.stats.Clients, p.stats.Waiting, p.stats.Servers = false, 0, 0, 0
	if err != nil {
		p.stats.Problem = err.Error()
	}
}

// backoff decides when a dead PgBouncer is restarted: at once if it had run for a while, since all
// its clients wait; then at growing intervals.
type backoff struct{ failures int }

const (
	steady    = 10 * time.Second
	waitFirst = 100 * time.Millisecond
	waitMost  = 5 * time.Second
)

func (b *backoff) after(lived time.Duration) time.Duration {
	if lived >= steady {
		b.failures = 0
	}
	b.failures++
	if b.failures == 1 {
		return 0
	}
	return min(waitFirst<<min(b.failures-2, 16), waitMost)
}
