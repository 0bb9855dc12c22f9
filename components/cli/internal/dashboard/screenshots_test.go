package dashboard

import (
	"os"
	"path/filepath"
	"testing"
)

// maxPicture bounds a picture of the documentation.
const maxPicture = 150 << 10

// The pictures of docs/guides/dashboard.md come from the coordinator of clienttest with fixed data. With
// CADRE_SCREENSHOTS the test writes them into that folder.
func TestScreenshots(t *testing.T) {
	page := newBrowser(t)
	b := newBench(t, world(t))
	page.look(1180, 860, "light")
	page.open(b.enter)
	for _, shot := range []struct {
		name, path    string
		width, height int
		scheme, ready string
		// documented pictures are part of the guide.
		documented bool
	}{
		{"overview", "", 1180, 860, "light", `document.querySelectorAll("tbody tr").length >= 6`, true},
		{"rollout", "groups/postgres", 1180, 1000, "light", `document.querySelector(".holds")`, true},
		{"rollout-dark", "groups/postgres", 1180, 1000, "dark", `document.querySelector(".holds")`, false},
		{"instance", "instances/postgres-1", 1180, 900, "light", `document.querySelector(".facts")`, false},
		{"drain", "act/drain?on=postgres-1", 1180, 720, "light", `document.querySelector("form.make")`, true},
		{"phone", "groups/postgres", 390, 844, "light", `document.querySelector(".holds")`, true},
		{"overlay", "overlay", 1180, 620, "light", `document.querySelector("tbody")`, true},
		{"failed", "groups/kafka", 1180, 900, "dark", `document.querySelector(".holds")`, true},
		{"operations", "operations", 1180, 620, "dark", `document.querySelector("tbody")`, false},
		{"admissions", "admissions", 1180, 620, "light", `document.querySelector("tbody")`, false},
		{"audit", "audit", 1180, 620, "light", `document.querySelector("tbody")`, false},
		{"audit-phone", "audit", 390, 844, "light", `document.querySelector("tbody")`, false},
	} {
		page.look(shot.width, shot.height, shot.scheme)
		page.open(b.base + shot.path)
		page.await(shot.ready)
		if shot.path != "act/drain?on=postgres-1" {
			page.await(`document.getElementById("connection").textContent === "live"`)
		}
		page.eval(`document.activeElement.blur()`)
		picture := page.shoot()
		if len(picture) > maxPicture {
			t.Errorf("%s has %d bytes, more than %d", shot.name, len(picture), maxPicture)
		}
		if wide := page.eval(`document.documentElement.scrollWidth > innerWidth`); wide == true {
			t.Errorf("%s is wider than its window", shot.name)
		}
		if folder := os.Getenv("CADRE_SCREENSHOTS"); folder != "" && shot.documented {
			if err := os.WriteFile(filepath.Join(folder, shot.name+".png"), picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	page.noErrors()
}
