package genesis

import (
	"fmt"
	"regexp"
	"strings"

	"cadre.dev/client"
)

// pins are the lists of coordinators' compose hashes in a compose text, whose trust file is JSON
// inside of YAML, with or without escapes.
var pins = regexp.MustCompile(`coordinator_compose_hashes\\*"\s*:\s*\[([^\]]*)\]`)

// pinned lists the groups whose members accept no coordinator with the compose hash, with the reasons.
// A member checks the hash when it boots.
func pinned(groups []client.Group, hash string) (out []string) {
	for _, g := range groups {
		lists := pins.FindAllStringSubmatch(g.Spec.Template.Compose, -1)
		lacks := false
		named := false
		for _, list := range lists {
			if strings.TrimSpace(list[1]) == "" {
				continue // any compose file of the app
			}
			named = true
			lacks = lacks || !strings.Contains(list[1], hash)
		}
		switch {
		case lacks:
			out = append(out, fmt.Sprintf("%s: coordinator_compose_hashes of its trust file lacks %s: add it, apply, and wait for the rollout", g.Spec.Name, hash))
		case named && !current(g):
			out = append(out, fmt.Sprintf("%s: its trust file names %s, but not all members run it: wait for the rollout", g.Spec.Name, hash))
		}
	}
	return out
}

// current reports whether all members run the revision of the spec.
func current(g client.Group) bool {
	for _, i := range g.Status.Instances {
		if i.Observed != g.Revision {
			return false
		}
	}
	return true
}
