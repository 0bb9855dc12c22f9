package statement

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func goodFounding() Founding {
	return Founding{
		Cluster: "test", Founding: strings.Repeat("0f", 16), AppID: strings.Repeat("01", 20), Slot: "coordinator-0",
		TLSPublicKey: bytes.Repeat([]byte{0x30}, 91), Exporter: bytes.Repeat([]byte{8}, 32), PeerNonce: bytes.Repeat([]byte{7}, 32),
	}
}

// TestATT14_ATT24_AFoundingIsStatedInOneWay: with a founding or with none, under a tag of
// its own.
func TestATT14_ATT24_AFoundingIsStatedInOneWay(t *testing.T) {
	none := goodFounding()
	none.Founding = ""
	for _, s := range []Founding{goodFounding(), none} {
		got, err := DecodeFounding(s.Encode())
		if err != nil || !reflect.DeepEqual(got, s) || s.Validate() != nil {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if none.ReportData() == goodFounding().ReportData() {
		t.Error("a founding and none are quoted alike")
	}
	for _, bad := range []string{"0f", strings.Repeat("0", 32), strings.Repeat("0F", 16), strings.Repeat("0f", 20)} {
		s := goodFounding()
		s.Founding = bad
		if _, err := DecodeFounding(s.Encode()); !errors.Is(err, ErrNoncanonical) {
			t.Errorf("founding %q: %v", bad, err)
		}
	}
	if _, err := DecodeCoordinator(goodFounding().Encode()); !errors.Is(err, ErrNoncanonical) {
		t.Errorf("read as a coordinator's statement to an operator: %v", err)
	}
	for _, enc := range [][]byte{goodCoordinator().Encode(), goodAgent().Encode()} {
		if _, err := DecodeFounding(enc); !errors.Is(err, ErrNoncanonical) {
			t.Errorf("another statement read as one: %v", err)
		}
	}
}

// TestATT23_GEN02_TheFoundingIsCommittedTo by all that a coordinator states.
func TestATT23_GEN02_TheFoundingIsCommittedTo(t *testing.T) {
	one, other := goodCoordinator(), goodCoordinator()
	other.Founding = strings.Repeat("10", 16)
	batch, _ := batchOf(t, 1)
	second := batch
	second.Founding = other.Founding
	if one.ReportData() == other.ReportData() || batch.ReportData() == second.ReportData() {
		t.Error("two foundings have one quote")
	}
	one.Founding, batch.Founding = "", ""
	if _, err := DecodeCoordinator(one.Encode()); !errors.Is(err, ErrNoncanonical) {
		t.Errorf("no founding, to an operator: %v", err)
	}
	if _, err := DecodeBatch(batch.Encode()); !errors.Is(err, ErrNoncanonical) {
		t.Errorf("no founding, to an agent: %v", err)
	}
}
