package statement

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func goodClusterID() ClusterID {
	return ClusterID{
		Cluster: "test", ClusterID: strings.Repeat("0f", 16), AppID: strings.Repeat("01", 20), Slot: "coordinator-0",
		TLSPublicKey: bytes.Repeat([]byte{0x30}, 91), Exporter: bytes.Repeat([]byte{8}, 32), PeerNonce: bytes.Repeat([]byte{7}, 32),
	}
}

// TestATT14_ATT24_AClusterIDIsStatedInOneWay: with a cluster ID or with none, under a tag of
// its own.
func TestATT14_ATT24_AClusterIDIsStatedInOneWay(t *testing.T) {
	none := goodClusterID()
	none.ClusterID = ""
	for _, s := range []ClusterID{goodClusterID(), none} {
		got, err := DecodeClusterID(s.Encode())
		if err != nil || !reflect.DeepEqual(got, s) || s.Validate() != nil {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if none.ReportData() == goodClusterID().ReportData() {
		t.Error("a cluster ID and none are quoted alike")
	}
	for _, bad := range []string{"0f", strings.Repeat("0", 32), strings.Repeat("0F", 16), strings.Repeat("0f", 20)} {
		s := goodClusterID()
		s.ClusterID = bad
		if _, err := DecodeClusterID(s.Encode()); !errors.Is(err, ErrNoncanonical) {
			t.Errorf("cluster ID %q: %v", bad, err)
		}
	}
	if _, err := DecodeCoordinator(goodClusterID().Encode()); !errors.Is(err, ErrNoncanonical) {
		t.Errorf("read as a coordinator's statement to an operator: %v", err)
	}
	for _, enc := range [][]byte{goodCoordinator().Encode(), goodAgent().Encode()} {
		if _, err := DecodeClusterID(enc); !errors.Is(err, ErrNoncanonical) {
			t.Errorf("another statement read as one: %v", err)
		}
	}
}

// TestATT23_GEN02_TheClusterIDIsCommittedTo by all that a coordinator states.
func TestATT23_GEN02_TheClusterIDIsCommittedTo(t *testing.T) {
	one, other := goodCoordinator(), goodCoordinator()
	other.ClusterID = strings.Repeat("10", 16)
	batch, _ := batchOf(t, 1)
	second := batch
	second.ClusterID = other.ClusterID
	if one.ReportData() == other.ReportData() || batch.ReportData() == second.ReportData() {
		t.Error("two cluster IDs have one quote")
	}
	one.ClusterID, batch.ClusterID = "", ""
	if _, err := DecodeCoordinator(one.Encode()); !errors.Is(err, ErrNoncanonical) {
		t.Errorf("no cluster ID, to an operator: %v", err)
	}
	if _, err := DecodeBatch(batch.Encode()); !errors.Is(err, ErrNoncanonical) {
		t.Errorf("no cluster ID, to an agent: %v", err)
	}
}
