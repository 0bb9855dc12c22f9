package cvminit

import (
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cadre.dev/local/internal/images"
	"cadre.dev/local/internal/sandbox"
)

const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// account is who a service runs as.
type account struct {
	uid, gid int
	groups   []int
	home     string
}

// lookUser resolves "", "name", "uid", "uid:gid", "name:group" with the host's
// files, which are the service's files too.
func lookUser(text string, more []string) (account, error) {
	name, group, hasGroup := strings.Cut(text, ":")
	if name == "" {
		name = "root"
	}
	a := account{home: "/"}
	u, err := user.Lookup(name)
	if err != nil {
		u, err = user.LookupId(name)
	}
	if err == nil {
		a.uid, _ = strconv.Atoi(u.Uid)
		a.gid, _ = strconv.Atoi(u.Gid)
		a.home = u.HomeDir
		ids, err := u.GroupIds()
		if err != nil {
			return a, fmt.Errorf("groups of %s: %w", name, err)
		}
		for _, id := range ids {
			if n, err := strconv.Atoi(id); err == nil && n != a.gid {
				a.groups = append(a.groups, n)
			}
		}
	} else if a.uid, err = strconv.Atoi(name); err != nil || a.uid < 0 {
		return a, fmt.Errorf("no user %q on this machine", name)
	}
	if hasGroup {
		if a.gid, err = lookGroup(group); err != nil {
			return a, err
		}
		a.groups = nil
	}
	for _, g := range more {
		id, err := lookGroup(g)
		if err != nil {
			return a, err
		}
		a.groups = append(a.groups, id)
	}
	return a, nil
}

func lookGroup(name string) (int, error) {
	if n, err := strconv.Atoi(name); err == nil && n >= 0 {
		return n, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("no group %q on this machine", name)
	}
	return strconv.Atoi(g.Gid)
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

// becoming are the capabilities of what becomes a service that has these.
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

// visible lists what an image needs to see of the host wherever it lies.
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
