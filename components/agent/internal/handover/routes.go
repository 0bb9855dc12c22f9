package handover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"cadre.dev/agent/internal/connpause"
	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/agent/internal/pooler"
)

// PgBouncer is the only value of [Route.Pooler].
const PgBouncer = "pgbouncer"

// Route is a route that this CVM may use.
type Route struct {
	Name string
	// Group is the group whose leadership the route depends on. Role is the part of the group that
	// the route reaches; a route without a role is never paused.
	Group, Role string
	// Applications dial VIP and Port. Envoy listens on Behind and Port; if Behind is not the VIP, a
	// pauser of this package listens on the VIP.
	VIP, Behind netip.Addr
	Port        uint16
	// Pause bounds how long clients wait; 0: they never wait.
	Pause time.Duration
	// Pooler is PgBouncer or "".
	Pooler string
	// Users of the pooler, by name the file of the password.
	Users map[string]string
}

func (r Route) address() netip.AddrPort { return netip.AddrPortFrom(r.VIP, r.Port) }
func (r Route) behind() netip.AddrPort  { return netip.AddrPortFrom(r.Behind, r.Port) }

// limit returns the duration of a pause that was requested for asked.
func (r Route) limit(asked time.Duration) time.Duration {
	if asked > 0 {
		return min(asked, r.Pause)
	}
	return r.Pause
}

// validate reports all errors of r.
func (r Route) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if r.Name == "" {
		bad("a route has no name")
	}
	if r.Pooler != "" && r.Pooler != PgBouncer {
		bad("pooler %q: there is %q alone", r.Pooler, PgBouncer)
	}
	for name, at := range map[string]netip.Addr{"vip": r.VIP, "behind": r.Behind} {
		if !at.Is4() || !at.IsLoopback() {
			bad("%s %s: it must be an IPv4 address of loopback", name, at)
		}
	}
	if r.Port == 0 {
		bad("port: there is none")
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("route %s: %w", r.Name, err)
	}
	return nil
}

// Config makes Routes.
type Config struct {
	// Dir is for the poolers' folders: in memory, and passable (0711) for UID.
	Dir string
	// Binary is the path of PgBouncer; "" finds it on PATH. PgBouncer runs as UID and GID, see
	// [pooler.Config].
	Binary   string
	UID, GID uint32
	// Keep leaves poolers running when Run ends: another worker follows and takes them over.
	Keep bool
	// Listen opens a pauser's socket; a net.ListenConfig's does.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	// Endpoints returns the route's endpoints in our own Envoy, at most age old. While a route
	// waits for a leader, its unit calls Endpoints every 10 ms: age is half of that interval, so
	// that all units can share a look.
	Endpoints func(ctx context.Context, route string, age time.Duration) ([]netip.AddrPort, error)
	// VIP is a Slot's, which its sidecar listens on.
	VIP func(slot string) (netip.Addr, bool)
	Log *slog.Logger
}

// Result is the outcome of a pause on one route.
type Result struct {
	Route string
	State State
	// Message is for people; "" if there is none.
	Message string
}

// Stats are of one route.
type Stats struct {
	Route, Group string
	// Paused reports that clients wait, or are about to.
	Paused bool
	// Problem is why the route's address is not served, or served badly; "": it is well.
	Problem     string
	Connections *connpause.Counters // nil: it has none
	Pooler      *pooler.Stats       // nil: it has none
}

// Routes are the routes of a CVM that have a pauser. Make it with [New]; safe for concurrent use.
type Routes struct {
	cfg       Config
	log       *slog.Logger
	newPauser func(Route, Config) (pauser, error)
	wanted    latestvalue.Value[[]Route]

	mu    sync.Mutex
	units map[string]*unit // guarded by mu; by route
}

// New makes an empty Routes.
func New(cfg Config) *Routes {
	return &Routes{cfg: cfg, log: cfg.Log, newPauser: newPauser, units: map[string]*unit{}}
}

// Set starts a pauser for each of routes and stops all others, soon. Set leaves unchanged
// routes alone and changes settings in place where connected clients allow it. The error lists all
// faults; the routes without a fault are served all the same.
func (s *Routes) Set(routes []Route) error {
	var (
		good []Route
		errs []error
		seen = map[string]bool{}
		at   = map[netip.AddrPort]string{}
	)
	for _, r := range routes {
		if r.Behind == r.VIP {
			continue // Envoy itself listens there
		}
		err := r.validate()
		if err == nil && seen[r.Name] {
			err = fmt.Errorf("route %s: it is there twice", r.Name)
		}
		if other, taken := at[r.address()]; err == nil && taken {
			err = fmt.Errorf("route %s: %s is the address of route %s too", r.Name, r.address(), other)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		seen[r.Name], at[r.address()] = true, r.Name
		good = append(good, r)
	}
	s.wanted.Set(good)
	return errors.Join(errs...)
}

// Run serves the configured routes until ctx ends, which resumes waiting clients. Run is idle until
// the first Set; see [pooler.ResumeAll] for a worker's duties before that.
func (s *Routes) Run(ctx context.Context) error {
	var index uint64
	for first := true; ; first = false {
		routes, now, err := s.wanted.Wait(ctx, index)
		if err != nil {
			break
		}
		index = now
		if first {
			if err := s.cfg.endOthers(names(routes)); err != nil {
				s.log.Error("poolers of routes that are gone may run on", "error", err)
			}
		}
		s.apply(ctx, routes)
	}
	s.mu.Lock()
	all := s.units
	s.units = map[string]*unit{}
	s.mu.Unlock()
	for _, u := range all {
		s.finish(u, !s.cfg.Keep)
	}
	return nil
}

// names returns the names of the routes with a pooler.
func names(routes []Route) []string {
	var out []string
	for _, r := range routes {
		if r.Pooler != "" {
			out = append(out, r.Name)
		}
	}
	return out
}

// apply brings the units in line with routes.
func (s *Routes) apply(ctx context.Context, routes []Route) {
	wanted := map[string]Route{}
	for _, r := range routes {
		wanted[r.Name] = r
	}
	s.mu.Lock()
	stop := map[*unit]bool{} // and whether its pooler ends
	for name, u := range s.units {
		r, stays := wanted[name]
		if stays && u.configure(r) {
			continue
		}
		stop[u] = r.Pooler == ""
		delete(s.units, name)
	}
	s.mu.Unlock()
	for u := range stop {
		u.cancel()
	}
	for u, end := range stop {
		s.finish(u, end)
	}
	for _, r := range routes {
		s.mu.Lock()
		_, runs := s.units[r.Name]
		s.mu.Unlock()
		if runs {
			continue
		}
		h, err := s.newPauser(r, s.cfg)
		if err != nil {
			// A route without a pauser stays in the list, because a missing route in a count is
			// easily overlooked. Running it logs the problem and retries.
			h = &unmade{route: r, make: func(r Route) (pauser, error) { return s.newPauser(r, s.cfg) }}
		}
		u := newUnit(r, h, s.cfg)
		u.start(ctx)
		s.mu.Lock()
		s.units[r.Name] = u
		s.mu.Unlock()
	}
}

func (s *Routes) finish(u *unit, end bool) {
	u.cancel()
	<-u.ended
	if !end {
		return
	}
	if err := u.pauser.end(); err != nil {
		u.log.Error("a route's pooler may run on", "error", err)
	}
}

// configure has u serve r from now on, if it can without a new pauser.
func (u *unit) configure(r Route) bool {
	u.mu.Lock()
	old := u.route
	u.mu.Unlock()
	switch {
	case reflect.DeepEqual(old, r):
		u.mu.Lock()
		u.stale = ""
		u.mu.Unlock()
		return true
	case old.address() != r.address() || old.behind() != r.behind() || old.Pooler != r.Pooler || old.Group != r.Group || old.Role != r.Role:
		return false
	}
	err := u.pauser.configure(r)
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		u.stale = "it keeps its settings: " + err.Error()
		u.log.Error("a route keeps its settings", "error", err)
		return true
	}
	u.stale, u.route = "", r
	return true
}

// of are the units of routes to group that may be paused, in the order of their names.
func (s *Routes) of(group string) []*unit {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*unit
	for _, u := range s.units {
		if r := u.now(); r.Group == group && r.Role != "" && r.Pause > 0 {
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(a, b *unit) int { return cmp.Compare(a.now().Name, b.now().Name) })
	return out
}

func (u *unit) now() Route {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.route
}

// Pause pauses the clients of the routes to group, because operation is about to move its
// leadership. Pause returns when the clients are paused, when a pause failed, or when ctx ends; the
// pauses already begun then continue. operation names one attempt: a second call with the same name
// changes nothing, and neither does a call after its Release. limit, if it is more than 0, and the
// route's own bound limit the time.
func (s *Routes) Pause(ctx context.Context, group, operation string, limit time.Duration) []Result {
	units := s.of(group)
	out := make([]Result, len(units))
	var all sync.WaitGroup
	for i, u := range units {
		all.Go(func() {
			r := u.now()
			a := u.pause(ctx, pauseAsked{operation, r.limit(limit)})
			out[i] = Result{Route: r.Name, State: a.state, Message: a.message}
		})
	}
	all.Wait()
	return out
}

// Release ends the pauses of operation on the routes to group: when our own Envoy shows the
// Slot leader, or another one than before; at once when leader is "", because the operation
// did not move the leadership. It returns at once.
func (s *Routes) Release(group, operation, leader string) {
	e := releaseAsked{operation: operation, moved: leader != ""}
	if e.moved {
		var known bool
		if e.leader, known = s.cfg.VIP(leader); !known {
			s.log.Warn("a leader has no address here, another one than before is waited for", "group", group, "operation", operation, "slot", leader)
		}
	}
	for _, u := range s.of(group) {
		u.send(e)
	}
}

// Stats of all routes, in the order of their names.
func (s *Routes) Stats() []Stats {
	s.mu.Lock()
	var out []Stats
	for _, u := range s.units {
		out = append(out, u.stats())
	}
	s.mu.Unlock()
	slices.SortFunc(out, func(a, b Stats) int { return cmp.Compare(a.Route, b.Route) })
	return out
}
