package become

import (
	"slices"
	"strconv"
	"strings"
)

// Program is its file name, next to cadre-local; Path is its place in a service's root.
const (
	Program = "cadre-become"
	Path    = "/.cadre-become"
)

// Command describes the process to become. The caller has Caps, and SETUID, SETGID and SETPCAP.
type Command struct {
	UID, GID int
	Groups   []int
	// Limits by name, "soft:hard", each a number or "unlimited".
	Limits map[string]string
	// Caps are the numbers of the capabilities that are left, if UID is 0.
	Caps []int
	Argv []string
}

// ID reads the number of a user or group, which has 31 bits: the kernel takes 4294967295 for
// "leave it as it is", which is root.
func ID(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err
}

// Args are the arguments of the program.
func (c Command) Args() []string {
	groups := make([]string, len(c.Groups))
	for i, g := range c.Groups {
		groups[i] = strconv.Itoa(g)
	}
	var limits []string
	for name, value := range c.Limits {
		limits = append(limits, name+"="+value)
	}
	slices.Sort(limits)
	var caps uint64
	for _, n := range c.Caps {
		caps |= 1 << n
	}
	return append([]string{
		strconv.Itoa(c.UID), strconv.Itoa(c.GID), strings.Join(groups, ","), strings.Join(limits, ","), strconv.FormatUint(caps, 16), "--",
	}, c.Argv...)
}
