package sandbox

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCapabilities(t *testing.T) {
	all := slices.Clone(capabilities)
	lean := slices.DeleteFunc(slices.Clone(all), func(c string) bool { return c == "SYS_RESOURCE" || c == "MKNOD" })
	without := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(defaultCaps), func(c string) bool { return slices.Contains(names, c) })
	}
	for name, c := range map[string]struct{ ours, add, drop, want []string }{
		"default":                       {ours: all, want: defaultCaps},
		"one less, as compose writes":   {ours: all, drop: []string{"cap_net_raw"}, want: without("NET_RAW")},
		"one instead of all":            {ours: all, add: []string{"CAP_SYS_NICE"}, drop: []string{"ALL"}, want: []string{"SYS_NICE"}},
		"none":                          {ours: all, drop: []string{"all"}},
		"a default one twice":           {ours: all, add: []string{"CHOWN"}, want: defaultCaps},
		"a default one is not there":    {ours: lean, want: without("MKNOD")},
		"drop one that is not there":    {ours: lean, drop: []string{"SYS_RESOURCE"}, want: without("MKNOD")},
		"a machine without any of them": {},
	} {
		got, err := capabilitiesOf(c.ours, c.add, c.drop)
		byName := func(s []string) []string { s = slices.Clone(s); slices.Sort(s); return s }
		if err != nil || !slices.Equal(byName(got), byName(c.want)) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		add, drop []string
		want      string
	}{
		"missing here":   {[]string{"SYS_NICE", "SYS_RESOURCE"}, nil, "may not give SYS_RESOURCE"},
		"missing, alone": {[]string{"SYS_RESOURCE"}, []string{"ALL"}, "may not give SYS_RESOURCE"},
		"unknown":        {[]string{"FLY"}, nil, `cap_add: "FLY" is no capability`},
		"unknown drop":   {nil, []string{"FLY"}, `cap_drop: "FLY" is no capability`},
		"all":            {[]string{"all"}, nil, "cap_add: ALL"},
	} {
		if got, err := capabilitiesOf(lean, c.add, c.drop); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", name, got, err, c.want)
		}
	}
}

// TestNoServiceHasMoreThanItWasGiven runs the kernel's word for it, for each capability
// that there is: asked for and given, or asked for and refused.
func TestNoServiceHasMoreThanItWasGiven(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil || os.Getuid() != 0 {
		t.Skip("skipped: needs root and bwrap")
	}
	ours, err := available()
	if err != nil {
		t.Fatal(err)
	}
	effective := func(c Config) string {
		text := run(t, c, "grep CapEff /proc/self/status")
		return strings.TrimLeft(strings.TrimPrefix(text, "CapEff:\t"), "0")
	}
	bits := func(names ...string) string {
		var sum uint64
		for n, name := range capabilities {
			if slices.Contains(names, name) {
				sum |= 1 << n
			}
		}
		return strings.TrimLeft(strconv.FormatUint(sum, 16), "0")
	}
	if got, want := effective(Config{Caps: []string{}}), ""; got != want {
		t.Errorf("without any: CapEff %s", got)
	}
	kept, err := Capabilities(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := effective(Config{Caps: kept}), bits(kept...); got != want {
		t.Errorf("default: CapEff %s, want %s", got, want)
	}
	missing := 0
	for _, name := range capabilities {
		c := Config{Hostname: "box", Caps: []string{name}}
		if slices.Contains(ours, name) {
			if name == "SYS_NICE" || name == "CHOWN" {
				if got, want := effective(c), bits(name); got != want {
					t.Errorf("%s: CapEff %s, want %s", name, got, want)
				}
			}
			continue
		}
		missing++
		if args, err := Args(c); err == nil {
			t.Errorf("%s, which this machine has not got: %v", name, args)
		}
	}
	t.Logf("this machine lacks %d of %d capabilities", missing, len(capabilities))
}

// TestAMachineThatLacksOneGivesNone takes one from this thread and asks for it.
func TestAMachineThatLacksOneGivesNone(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root, which may give capabilities up")
	}
	refused := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_NICE, 0, 0, 0); err != nil {
			refused <- nil
			return
		}
		_, err := Args(Config{Hostname: "box", Caps: []string{"SYS_NICE"}})
		refused <- err
	}()
	if err := <-refused; err == nil || !strings.Contains(err.Error(), "may not give the capability SYS_NICE") {
		t.Errorf("refused with %v", err)
	}
}
