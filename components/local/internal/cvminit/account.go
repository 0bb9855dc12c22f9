package cvminit

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cadre.dev/local/internal/become"
	"cadre.dev/local/internal/images"
	"cadre.dev/local/internal/sandbox"
)

const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// account is the user and group of a service.
type account struct {
	uid, gid int
	groups   []int
	home     string
}

// lookUser resolves "", "name", "uid", "uid:gid", "name:group" with the files that are
// the service's.
func lookUser(among people, text string, more []string) (account, error) {
	name, group, hasGroup := strings.Cut(text, ":")
	if name == "" {
		name = "root"
	}
	a := account{home: "/"}
	p, found, err := among.user(name)
	switch {
	case err != nil:
		return a, err
	case found:
		a = account{uid: p.uid, gid: p.gid, groups: p.groups, home: p.home}
	case name == "root": // of an image without users
	default:
		if a.uid, err = become.ID(name); err != nil {
			return a, fmt.Errorf("no user %q %s", name, among.where())
		}
	}
	if hasGroup {
		if a.gid, err = lookGroup(among, group); err != nil {
			return a, err
		}
		a.groups = nil
	}
	for _, g := range more {
		id, err := lookGroup(among, g)
		if err != nil {
			return a, err
		}
		a.groups = append(a.groups, id)
	}
	return a, nil
}

func lookGroup(among people, name string) (int, error) {
	if n, err := become.ID(name); err == nil {
		return n, nil
	}
	if id, ok := among.group(name); ok {
		return id, nil
	}
	return 0, fmt.Errorf("no group %q %s", name, among.where())
}

// setpriv is the command prefix that becomes the account, with these capabilities if it
// is root. The caller has them, and sandbox.Becoming.
func (a account) setpriv(caps []string) []string {
	bounding := "-all"
	for _, c := range caps {
		bounding += ",+" + strings.ToLower(c)
	}
	args := []string{
		"setpriv", "--no-new-privs", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=" + bounding,
		"--reuid=" + strconv.Itoa(a.uid), "--regid=" + strconv.Itoa(a.gid),
	}
	if len(a.groups) == 0 {
		return append(args, "--clear-groups", "--")
	}
	ids := make([]string, len(a.groups))
	for i, g := range a.groups {
		ids[i] = strconv.Itoa(g)
	}
	return append(args, "--groups="+strings.Join(ids, ","), "--")
}

// become is the command prefix that does the same, and sets limits, in the root of an
// image, for argv.
func (a account) become(limits map[string]string, caps, argv []string) []string {
	c := become.Command{UID: a.uid, GID: a.gid, Groups: a.groups, Limits: limits, Caps: sandbox.Numbers(caps), Argv: argv}
	return append([]string{become.Path}, c.Args()...)
}

// becoming are the capabilities of the process that becomes a service with these capabilities.
func becoming(caps []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(caps, sandbox.Becoming))))
}

// env is the whole environment of the unit.
func (u *unit) env(hostname string) []string {
	all := map[string]string{
		"PATH":     strings.Join(append(slices.Clone(u.img.Path), standardPath), ":"),
		"HOME":     u.who.home,
		"HOSTNAME": hostname,
	}
	maps.Copy(all, u.img.Env)
	maps.Copy(all, u.svc.Env)
	out := make([]string, 0, len(all))
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, k+"="+all[k])
	}
	return out
}

// harmless removes the variables of the dynamic loader and the C library from env. nsenter has env
// until it has become the service, and is the machine's program and root.
func harmless(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(line string) bool {
		key, _, _ := strings.Cut(line, "=")
		for _, prefix := range []string{"LD_", "GLIBC_", "GCONV_", "MALLOC_", "LOCPATH", "NLSPATH", "RES_", "HOSTALIASES", "TMPDIR"} {
			if strings.HasPrefix(key, prefix) {
				return true
			}
		}
		return false
	})
}

// visible lists the host's paths that an image needs.
func visible(img images.Image) []string {
	paths := slices.Concat(img.Path, img.Mounts)
	if len(img.Entrypoint) > 0 && filepath.IsAbs(img.Entrypoint[0]) {
		paths = append(paths, img.Entrypoint[0])
	}
	return slices.DeleteFunc(paths, func(p string) bool { _, err := os.Stat(p); return err != nil })
}

func prlimit(limits map[string]string) []string {
	if len(limits) == 0 {
		return nil
	}
	args := []string{"prlimit"}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		args = append(args, "--"+name+"="+limits[name])
	}
	return append(args, "--")
}
