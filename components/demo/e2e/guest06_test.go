package e2e

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"cadre.dev/client"
	"cadre.dev/core/policy"
	"cadre.dev/demo/internal/rig"
)

// TestATT18_AMemberWithAGuestImage06IsAdmitted moves a group to a guest image that writes the boot log of dstack 0.6:
// other events, and none of the KMS. Each member is admitted again, on its own disk, by that image's measurements.
func TestATT18_AMemberWithAGuestImage06IsAdmitted(t *testing.T) {
	const image = guest06
	c := readyCluster(t)
	if _, err := c.ApplyLight(within(t, rollTime), c.edited(t, `os_image      = "dstack-0.5.7"`, `os_image      = "`+image+`"`), c.next()); err != nil {
		t.Fatal(err)
	}
	c.complete(t, rig.Light)
	text, err := os.ReadFile(c.CloudFile())
	if err != nil {
		t.Fatal(err)
	}
	var facts struct {
		Images map[string][]policy.Measurement `json:"images"`
	}
	if err := json.Unmarshal(text, &facts); err != nil || len(facts.Images[image]) == 0 {
		t.Fatalf("the cloud names no measurements of %s: %v, %v", image, facts.Images, err)
	}
	for _, slot := range slots(rig.Light) {
		described, err := c.api.Instance(within(t, rollTime), slot)
		if err != nil {
			t.Fatal(err)
		}
		if len(described.Admissions) == 0 {
			t.Fatalf("%s has no admission", slot)
		}
		admitted := described.Admissions[0]
		ran := slices.Contains(facts.Images[image], policy.Measurement{
			MRTD: admitted.Claims.MRTD, RTMR0: admitted.Claims.RTMR0, RTMR1: admitted.Claims.RTMR1, RTMR2: admitted.Claims.RTMR2,
		})
		if admitted.Code != "" || !ran || described.Status.State != client.StateAvailable {
			t.Errorf("%s is %s, its last decision %+v", slot, described.Status.State, admitted)
		}
	}
	// A group that moves to the newer image also moves back from it.
	c.roll(t)
}
