package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// capabilities are the kernel's by number.
var capabilities = []string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE",
	"NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT",
	"SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE",
	"AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ",
	"PERFMON", "BPF", "CHECKPOINT_RESTORE",
}

// defaultCaps are the capabilities that container engines leave to root, except NET_ADMIN: a
// service must not be able to add routes out of its CVM.
var defaultCaps = []string{
	"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
	"NET_BIND_SERVICE", "NET_RAW", "SYS_CHROOT", "MKNOD", "AUDIT_WRITE", "SETFCAP",
}

// Becoming are the capabilities that a command needs to become another user with fewer
// of them.
var Becoming = []string{"SETGID", "SETUID", "SETPCAP"}

// Capabilities returns the capabilities of a service that adds and drops these names, with or
// without CAP_ and in any case, in the kernel's order. It fails when an added capability is
// unknown, or when this process lacks it. A default capability that this machine lacks is left out.
func Capabilities(add, drop []string) ([]string, error) {
	ours, err := available()
	if err != nil {
		return nil, err
	}
	return capabilitiesOf(ours, add, drop)
}

func capabilitiesOf(ours, add, drop []string) ([]string, error) {
	keep := slices.Clone(defaultCaps)
	var errs []error
	for _, name := range drop {
		switch name = capName(name); {
		case name == "ALL":
			keep = nil
		case !slices.Contains(capabilities, name):
			errs = append(errs, fmt.Errorf("cap_drop: %q is no capability", name))
		default:
			keep = slices.DeleteFunc(keep, func(k string) bool { return k == name })
		}
	}
	for _, name := range add {
		switch name = capName(name); {
		case name == "ALL":
			errs = append(errs, errors.New("cap_add: ALL is not offered; name what the service needs"))
		case !slices.Contains(capabilities, name):
			errs = append(errs, fmt.Errorf("cap_add: %q is no capability", name))
		case !slices.Contains(ours, name):
			errs = append(errs, fmt.Errorf("cap_add: this machine may not give %s: its own bounding set lacks it; leave it out or use another machine", name))
		default:
			keep = append(keep, name)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	var out []string
	for _, name := range capabilities {
		if slices.Contains(keep, name) && slices.Contains(ours, name) {
			out = append(out, name)
		}
	}
	return out, nil
}

// Numbers are the kernel's for these names.
func Numbers(caps []string) []int {
	var out []int
	for n, name := range capabilities {
		if slices.Contains(caps, name) {
			out = append(out, n)
		}
	}
	return out
}

// mayHave fails where one of caps is not this process's to give: asked for such a one,
// bubblewrap leaves the command all that there are.
func mayHave(caps []string) error {
	ours, err := available()
	if err != nil {
		return err
	}
	for _, name := range caps {
		if !slices.Contains(ours, name) {
			return fmt.Errorf("this machine may not give the capability %s: its own bounding set lacks it", name)
		}
	}
	return nil
}

// available lists the capabilities that this process may pass on: permitted, and in the bounding
// set.
func available() ([]string, error) {
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return nil, fmt.Errorf("read own capabilities: %w", err)
	}
	var out []string
	for n, name := range capabilities {
		// An old kernel refuses numbers that it does not know: it has not got them.
		bounding, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(n), 0, 0, 0)
		if err == nil && bounding == 1 && data[n/32].Permitted&(1<<(n%32)) != 0 {
			out = append(out, name)
		}
	}
	return out, nil
}

func capName(c string) string { return strings.TrimPrefix(strings.ToUpper(c), "CAP_") }
