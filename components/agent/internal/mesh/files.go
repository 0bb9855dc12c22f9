package mesh

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cadre.dev/agent/internal/durable"
)

//go:embed exec.sh
var execScript []byte

// Info is everything that the files say.
type Info struct {
	Cluster, Group, Slot string
	VIP                  netip.Addr
	// Members are the group's Slot names in ordinal order.
	Members []string
	// VIPs by Slot name, of all known Peers and this Slot.
	VIPs        map[string]netip.Addr
	Meta        map[string]string
	Secrets     map[string]string
	ConsulToken string
}

// Folder writes the files. Safe for concurrent use.
type Folder struct {
	dir string
	gid int

	mu      sync.Mutex
	written map[string][]byte // guarded by mu
	// withdrawn: nothing is written any more; guarded by mu.
	withdrawn bool
}

// Open takes dir over: it is created if needed, and a ready file that an earlier
// Boot left is removed, since its files are not ours. Secrets are readable by gid
// too, if it is not 0.
func Open(dir string, gid int) (*Folder, error) {
	if err := os.MkdirAll(filepath.Join(dir, "secrets"), 0o755); err != nil { //nolint:gosec // names are no secrets
		return nil, fmt.Errorf("open mesh folder: %w", err)
	}
	if err := os.Remove(filepath.Join(dir, "ready")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open mesh folder: %w", err)
	}
	f := &Folder{dir: dir, gid: gid, written: map[string][]byte{}}
	// Workloads start at once and wait in exec.sh, so it is there before admission.
	if err := f.put("exec.sh", execScript, 0o755, false); err != nil {
		return nil, fmt.Errorf("open mesh folder: %w", err)
	}
	return f, nil
}

// Write brings all files except ready up to date; what did not change is not touched.
func (f *Folder) Write(info Info) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	errs := []error{
		f.put("hosts", hosts(info), 0o644, false),
		f.put("env", environment(info), 0o644, false),
	}
	if info.ConsulToken != "" {
		errs = append(errs, f.put("consul-token", []byte(info.ConsulToken), 0, true))
	}
	for _, name := range slices.Sorted(maps.Keys(info.Secrets)) {
		if !fileName.MatchString(name) {
			errs = append(errs, fmt.Errorf("secret %q: the name must match %s", name, fileName))
			continue
		}
		errs = append(errs, f.put(filepath.Join("secrets", name), []byte(info.Secrets[name]), 0, true))
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
	return f.put("ready", []byte{}, 0o644, false)
}

func (f *Folder) put(name string, data []byte, mode fs.FileMode, secret bool) error {
	if f.withdrawn {
		return errWithdrawn
	}
	if old, done := f.written[name]; done && bytes.Equal(old, data) {
		return nil
	}
	gid := 0
	if secret {
		mode = 0o400
		if f.gid != 0 {
			gid, mode = f.gid, 0o440
		}
	}
	path := filepath.Join(f.dir, name)
	if err := durable.WriteFileAs(path, data, mode, gid); err != nil {
		return err
	}
	f.written[name] = bytes.Clone(data)
	return nil
}

func hosts(info Info) []byte {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n")
	for _, slot := range slices.Sorted(maps.Keys(info.VIPs)) {
		fmt.Fprintf(&b, "%s %s\n", info.VIPs[slot], slot)
	}
	return []byte(b.String())
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
		"CONSUL_HTTP_ADDR":  "127.0.0.1:8500",
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
