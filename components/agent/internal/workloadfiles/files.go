package workloadfiles

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cadre.dev/core/secret"
)

// Info is the content of the files.
type Info struct {
	Cluster, Group, Slot string
	VIP                  netip.Addr
	// Members are the group's Slot names in ordinal order.
	Members []string
	// JoinMembers are the Slots among which the member joins a set that is there already.
	JoinMembers []string
	// Founders are the Slots that found the set together; empty once this Slot's member is in it.
	Founders []string
	// VIPs by Slot name, of all known Peers and this Slot.
	VIPs map[string]netip.Addr
	// Routes are the VIPs of the routes that this Slot may dial, by route name. If a route has the
	// name of a Slot, the name resolves to the Slot.
	Routes      map[string]netip.Addr
	Meta        map[string]string
	Secrets     map[string]Secret
	ConsulToken secret.Value
	// RevisionMark is that of the measured compose text; "" where it has none.
	RevisionMark string
}

// Folder writes the files. Safe for concurrent use.
type Folder struct {
	dir, secrets folder
	gid          int
	// again: an earlier process of this Boot wrote the present files.
	again bool

	mu      sync.Mutex
	written map[string]written // guarded by mu; by path
	// withdrawn: writes have stopped; guarded by mu.
	withdrawn bool
}

// Open takes over dir, which must be in memory. It creates dir if needed, and removes the ready
// file of an earlier Boot, because the files are not this Boot's. Secrets without an owner of their
// own are readable by gid too, if it is not 0. Workloads start with program, a path or a name on
// PATH; "" places none.
func Open(dir string, gid int, program string) (*Folder, error) {
	return openFor(dir, gid, program, false)
}

// OpenAgain is Open for a later process of the same Boot: ready stays, and files that are as
// they should be are not touched.
func OpenAgain(dir string, gid int, program string) (*Folder, error) {
	return openFor(dir, gid, program, true)
}

func openFor(dir string, gid int, program string, again bool) (*Folder, error) {
	f, err := open(dir, gid, program, again)
	if err != nil {
		return nil, fmt.Errorf("open mesh folder: %w", err)
	}
	return f, nil
}

func open(dir string, gid int, program string, again bool) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // names are no secrets
		return nil, err
	}
	if err := InMemory(dir); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{dir: folder{root: root, path: dir}, gid: gid, again: again, written: map[string]written{}}
	if err := root.Mkdir(secretsFolder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if f.secrets, err = f.dir.open(secretsFolder); err != nil {
		return nil, err
	}
	// It may be a mount of its own.
	if err := InMemory(f.secrets.path); err != nil {
		return nil, err
	}
	// Set the mode again, because the umask may have reduced it: workloads of other users read
	// here.
	if err := errors.Join(root.Chmod(".", 0o755), f.secrets.root.Chmod(".", 0o755)); err != nil {
		return nil, err
	}
	if !again {
		if err := f.dir.remove("ready"); err != nil {
			return nil, err
		}
	}
	return f, f.place(program)
}

// place installs program for the workloads. They start at once and wait in it, so it is installed
// before admission.
func (f *Folder) place(program string) error {
	if program == "" {
		return nil
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return fmt.Errorf("--exec-binary: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--exec-binary: %w", err)
	}
	return errors.Join(f.public("exec", data, 0o755), f.public("exec.sh", []byte(wrapper), 0o755))
}

// wrapper executes the program in the same folder, which waits and does the rest.
const wrapper = `#!/bin/sh
# Becomes exec, beside it, which waits until this CVM is admitted and runs what stands after --.
case $0 in
*/*) exec "${0%/*}/exec" "$@" ;;
*) exec ./exec "$@" ;;
esac
`

// Write brings all files except ready up to date, and leaves unchanged files alone.
func (f *Folder) Write(info Info) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	errs := []error{
		f.public("hosts", hosts(info), 0o644),
		f.public("env", environment(info), 0o644),
		f.writeSecrets(info.Secrets),
	}
	if info.RevisionMark != "" {
		errs = append(errs, f.public("revision-mark", []byte(info.RevisionMark), 0o644))
	}
	if !info.ConsulToken.IsZero() {
		errs = append(errs, f.put(f.dir, "consul-token", info.ConsulToken.Reveal(), f.meshAccess()))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("write mesh files: %w", err)
	}
	return nil
}

// Ready creates the ready file; Write must have succeeded before.
func (f *Folder) Ready() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.public("ready", []byte{}, 0o644)
}

func (f *Folder) public(name string, data []byte, mode fs.FileMode) error {
	return f.put(f.dir, name, data, access{mode: mode, uid: -1, gid: -1})
}

// put writes the file if it changed.
func (f *Folder) put(in folder, name string, data []byte, who access) error {
	if f.withdrawn {
		return errWithdrawn
	}
	path := in.path + "/" + name
	now := written{digest: sha256.Sum256(data), who: who}
	old, done := f.written[path]
	if done && old == now {
		return nil
	}
	if !done && f.again && in.holds(name, data, who) {
		f.written[path] = now
		return nil
	}
	if err := in.put(name, data, who); err != nil {
		return err
	}
	f.written[path] = now
	return nil
}

func hosts(info Info) []byte {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n")
	for _, slot := range slices.Sorted(maps.Keys(info.VIPs)) {
		fmt.Fprintf(&b, "%s %s\n", info.VIPs[slot], slot)
	}
	for _, route := range routes(info) {
		fmt.Fprintf(&b, "%s %s\n", info.Routes[route], route)
	}
	return []byte(b.String())
}

// routes are the names of routes that no Slot has, sorted.
func routes(info Info) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(info.Routes)) {
		_, peer := info.VIPs[name]
		if !peer && name != "localhost" && name != info.Slot && !slices.Contains(info.Members, name) {
			out = append(out, name)
		}
	}
	return out
}

func environment(info Info) []byte {
	addresses := make([]string, len(info.Members))
	for i, m := range info.Members {
		if vip, known := info.VIPs[m]; known {
			addresses[i] = vip.String()
		}
	}
	vars := map[string]string{
		"CADRE_CLUSTER":     info.Cluster,
		"CADRE_GROUP":       info.Group,
		"CADRE_SLOT":        info.Slot,
		"CADRE_ORDINAL":     ordinal(info),
		"CADRE_VIP":         info.VIP.String(),
		"CADRE_MEMBERS":     strings.Join(info.Members, ","),
		"CADRE_MEMBER_VIPS": strings.Join(addresses, ","),
		// Empty: the member is in the set, or founds it with CADRE_MEMBERS.
		"CADRE_JOIN_MEMBERS": strings.Join(info.JoinMembers, ","),
		// Empty: the member must not found a set, even on an empty disk.
		"CADRE_FOUNDERS":   strings.Join(info.Founders, ","),
		"CADRE_ROUTES":     strings.Join(routes(info), ","),
		"CONSUL_HTTP_ADDR": "127.0.0.1:8500",
	}
	for key, value := range info.Meta {
		vars["CADRE_META_"+notName.ReplaceAllString(strings.ToUpper(key), "_")] = value
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		fmt.Fprintf(&b, "%s='%s'\n", name, strings.ReplaceAll(vars[name], "'", `'\''`))
	}
	return []byte(b.String())
}

// ordinal is the Slot's number in its name: postgres-2 has ordinal 2.
func ordinal(info Info) string {
	_, text, _ := cutLast(info.Slot, "-")
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return strconv.Itoa(n)
	}
	return strconv.Itoa(max(0, slices.Index(info.Members, info.Slot)))
}

func cutLast(s, sep string) (before, after string, found bool) {
	at := strings.LastIndex(s, sep)
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+len(sep):], true
}

var (
	fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	notName  = regexp.MustCompile(`[^A-Z0-9]`)
)
