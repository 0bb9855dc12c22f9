package pooler

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"cadre.dev/core/group"
)

// Config makes a Pooler.
type Config struct {
	// Route names it, and its folder below Dir.
	Route string
	// Dir is a folder in memory that User may pass through (mode 0711 or wider). It has one
	// folder for each Pooler.
	Dir string
	// Address is where applications connect, Target where Envoy listens for the route.
	Address, Target netip.AddrPort
	// Users are the users that applications may log in as. Each name maps to the file with the
	// user's password in the database, which clients must give here as well. An empty path declares
	// a user without a password in the database; PgBouncer then asks for none either.
	Users map[string]string
	// Binary is PgBouncer's; "" finds it on PATH.
	Binary string
	// PgBouncer runs as UID and GID when this process is root, since it refuses to run as root. No
	// other process may run as UID: PgBouncer takes commands from that user.
	UID, GID uint32
	Log      *slog.Logger
}

const (
	// admin is the agent's user on the console. No application's user may have this name.
	admin = "cadre-agent"
	// console is the name of PgBouncer's console among its databases.
	console = group.PoolerConsole

	// Specs are held to these, too.
	maxUsers = group.MaxPoolerUsers
	// maxName and maxPassword are below PgBouncer's own bounds, above which it would drop
	// all users that come later in the file.
	maxName, maxPassword = group.MaxPoolerUserName, 1024
	// maxSocket bounds the path of a unix socket.
	maxSocket = 107
)

var routeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// validate reports all errors of c.
func (c Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !routeName.MatchString(c.Route) {
		bad("route %q: the name must match %s", c.Route, routeName)
	}
	if !filepath.IsAbs(c.Dir) || strings.ContainsAny(c.Dir, "\n\r") {
		bad("dir %q: name a folder by its absolute path", c.Dir)
	} else if n := len(c.folder().socket(c.Address.Port())); n > maxSocket {
		bad("dir %q: its socket's path would have %d bytes, at most %d work: choose a shorter one", c.Dir, n, maxSocket)
	}
	for name, at := range map[string]netip.AddrPort{"address": c.Address, "target": c.Target} {
		if !at.IsValid() || !at.Addr().Is4() || !at.Addr().IsLoopback() || at.Port() == 0 {
			bad("%s %s: it must be an IPv4 address of loopback, with a port", name, at)
		}
	}
	if c.Address == c.Target {
		bad("target %s: it is the address itself", c.Target)
	}
	return errors.Join(append(errs, checkUsers(c.Users))...)
}

func checkUsers(users map[string]string) error {
	var errs []error
	if len(users) > maxUsers {
		errs = append(errs, fmt.Errorf("users: %d, at most %d can be", len(users), maxUsers))
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		switch {
		case name == "" || len(name) > maxName || strings.ContainsFunc(name, isControl):
			errs = append(errs, fmt.Errorf("user %q: the name must have 1 to %d bytes and no control character", name, maxName))
		case name == admin || name == console:
			errs = append(errs, fmt.Errorf("user %q: the name is the pooler's own, choose another", name))
		case users[name] != "" && !filepath.IsAbs(users[name]):
			errs = append(errs, fmt.Errorf("user %q: its password's file %q must be named by its absolute path", name, users[name]))
		}
	}
	return errors.Join(errs...)
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }
