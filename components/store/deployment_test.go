package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/audit"
	"cadre.dev/core/deployment"
	"cadre.dev/store"
)

// TestTheLargestDeploymentFitsOneTransaction: each version is one transaction, which must fit within the
// bounds that validation applies.
func TestTheLargestDeploymentFitsOneTransaction(t *testing.T) {
	const name = "shop"
	labels, groups := map[string]string{}, map[string]string{}
	for i := range deployment.MaxLabels {
		labels[fmt.Sprintf("%0*d", deployment.MaxLabelBytes, i)] = strings.Repeat("x", deployment.MaxLabelBytes)
	}
	note := audit.Entry{At: time.Now(), Who: audit.Operator, By: strings.Repeat("b", audit.MaxBy-2), Verb: "apply"}
	var ops []store.Op
	for i := range deployment.MaxGroups {
		g := fmt.Sprintf("g%0*d", 39, i)
		groups[g] = deployment.Digest([]byte(g))
		applied, err := store.Put(store.AppliedKey(g), store.Applied{Group: g, By: note.By, Request: strings.Repeat("r", 128), At: note.At}, 0)
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, applied, store.Op{Kind: store.OpCheckAbsent, Key: store.DeleteGroupKey(g)},
			store.Op{Kind: store.OpPutCAS, Key: store.GroupSpecKey(g), Value: []byte(strings.Repeat("s", deployment.MaxBytes/deployment.MaxGroups))})
	}
	record := deployment.Record{Name: name}
	for range deployment.MaxVersions {
		record = record.Append(deployment.Version{By: note.By, At: note.At, Request: strings.Repeat("r", 128), Reason: strings.Repeat("<", store.MaxReason/6), Of: 1, Labels: labels, Groups: groups})
	}
	put, err := store.Put(store.DeploymentKey(name), record, 1)
	if err != nil {
		t.Fatal(err)
	}
	ops = store.NoteAll(note, append(ops, store.Noted(put, note))...)
	if err := store.ValidateOps(ops); err != nil {
		t.Errorf("%d operations, the record has %d bytes: %v", store.Weight(ops...), len(put.Value), err)
	}
	t.Logf("%d operations, the record has %d bytes", store.Weight(ops...), len(put.Value))
}
