package machine

import (
	"strings"
	"testing"

	"cadre.dev/local/internal/cloud"
)

func TestANameThatIsNoneOfAMachineIsNoHostname(t *testing.T) {
	for name, want := range map[string]string{
		"web-0": "web-0", "a": "a", "": "id", "a b": "id", "$(x)": "id", "-a": "id", strings.Repeat("a", 63): strings.Repeat("a", 63), strings.Repeat("a", 64): "id",
	} {
		if got := hostname(cloud.BootSpec{Name: name, UUID: "id"}); got != want {
			t.Errorf("hostname of %q is %q, want %q", name, got, want)
		}
	}
}
