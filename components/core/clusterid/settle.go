package clusterid

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Founder is the ordinal of the one coordinator that may found; the others only join
// (GEN-01).
const Founder = 0

// Answers are the other coordinators' proofs of one round, by ordinal: a cluster ID, or "" for none
// yet. A coordinator that did not answer is missing.
type Answers map[int]string

// Step is the next action of a coordinator without a cluster ID, after a round of questions.
type Step struct {
	// Join is the cluster ID to take over; "" none.
	Join string
	// Found: a new one may be drawn.
	Found bool
	// Restore is the cluster ID under which a backup is awaited; "" none.
	Restore string
	// Wait names the missing answer, when the coordinator neither joins nor founds.
	Wait string
}

// Settle decides for the coordinator with this ordinal among replicas, whose disk has no cluster
// ID. The coordinator joins the ID that any other one proves. The bootstrapping coordinator draws a
// new ID only after each other one has proved that it has none: a coordinator without an answer may
// have an ID. pinned is the trust file's ID, "" for none: a coordinator with it joins that ID and
// never bootstraps. restore is the cluster ID of a backup that is to be restored, "" for none. It is
// an untrusted hint: the bootstrapping coordinator takes it where it would draw a new ID, and then
// waits for the backup. The error (GENESIS_CONFLICT, CLUSTER_MISMATCH) needs an operator.
func Settle(ordinal, replicas int, pinned, restore string, answers Answers) (Step, error) {
	said := map[string][]string{}
	var silent []string
	for n := range replicas {
		if n == ordinal {
			continue
		}
		switch id, answered := answers[n]; {
		case !answered:
			silent = append(silent, coordinator(n))
		case id != "":
			said[id] = append(said[id], coordinator(n))
		}
	}
	ids := slices.Sorted(maps.Keys(said))
	switch {
	case len(ids) > 1:
		return Step{}, Conflict(said)
	case len(ids) == 1 && pinned != "" && ids[0] != pinned:
		return Step{}, &MismatchError{Who: strings.Join(said[ids[0]], ", "), Got: ids[0], Pinned: pinned, Where: "the measured trust file",
			WayOut: "name the right one there, or delete the coordinators that do not belong to it"}
	case len(ids) == 1:
		return Step{Join: ids[0]}, nil
	case pinned != "" && pinned != restore:
		return Step{Wait: fmt.Sprintf("a coordinator of cluster ID %s, which the measured trust file names: no answering coordinator has it, and with that name in the trust file none draws a new ID", pinned)}, nil
	case ordinal != Founder:
		return Step{Wait: "a coordinator that knows the cluster ID; at the first start " + coordinator(Founder) + " makes it"}, nil
	case len(silent) > 0:
		return Step{Wait: "an answer from " + strings.Join(silent, ", ") + ": a coordinator without an answer may have the cluster ID"}, nil
	}
	return Step{Found: restore == "", Restore: restore}, nil
}

// Conflict says that coordinators of one cluster are of different cluster IDs; said has
// the coordinators by cluster ID.
func Conflict(said map[string][]string) error {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(said)) {
		parts = append(parts, fmt.Sprintf("%s of cluster ID %s", strings.Join(said[id], ", "), id))
	}
	return fmt.Errorf("GENESIS_CONFLICT: the coordinators are not of one cluster ID: %s; keep those with the cluster's records (the context names their cluster ID) and give the others empty disks",
		strings.Join(parts, "; "))
}

func coordinator(n int) string { return fmt.Sprintf("coordinator-%d", n) }
