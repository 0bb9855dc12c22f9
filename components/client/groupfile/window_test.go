package groupfile

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/window"
)

const windows = `
group "web" {
  replicas = 3
  template {
    compose       = "services:\n  web:\n    image: web@sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881\n"
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.7"
  }
  update_policy {
    window {
      days   = ["Mon-Fri"]
      from   = "09:00"
      to     = "16:00"
      zone   = "Europe/Berlin"
      except = ["2026-12-24"]
    }
    window {
      from = "22:00"
      to   = "TO"
      zone = "ZONE"
    }
  }
}
`

func loadWindows(t *testing.T, to, zone string) File {
	t.Helper()
	dir := write(t, map[string]string{"web.hcl": strings.NewReplacer("TO", to, "ZONE", zone).Replace(windows)})
	f, err := Load([]string{dir}, Vars{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestR97_AGroupFileHasWindows: several blocks stand in one list of the record, in the order of the file.
func TestR97_AGroupFileHasWindows(t *testing.T) {
	f := loadWindows(t, "24:00", "UTC")
	again, err := group.Decode(f.Groups[0].JSON)
	if err != nil {
		t.Fatal(err)
	}
	want := window.Windows{
		{Days: []string{"Mon-Fri"}, From: "09:00", To: "16:00", Zone: "Europe/Berlin", Except: []string{"2026-12-24"}},
		{From: "22:00", To: "24:00", Zone: "UTC"},
	}
	for name, got := range map[string]window.Windows{"the file": f.Groups[0].Spec.UpdatePolicy.Windows, "the record": again.UpdatePolicy.Windows} {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s has %+v, want %+v", name, got, want)
		}
	}
}

// TestR97_AWindowThatNeverOpensIsRefused, with the other fault of the same file, and the lines of both.
func TestR97_AWindowThatNeverOpensIsRefused(t *testing.T) {
	g := loadWindows(t, "22:00", "Mars/Base").Groups[0]
	var invalid *group.ValidationError
	if err := group.Validate(g.Spec); !errors.As(err, &invalid) {
		t.Fatalf("validation answers %v", err)
	}
	var at []string
	for _, p := range invalid.Problems {
		at = append(at, p.Path+" "+g.Position(p.Path)[strings.LastIndex(g.Position(p.Path), "/")+1:])
	}
	if want := []string{"update_policy.window[1].to web.hcl:19", "update_policy.window[1].zone web.hcl:20"}; !slices.Equal(at, want) {
		t.Errorf("problems at %v, want %v", at, want)
	}
}
