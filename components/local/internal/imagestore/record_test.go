package imagestore

import (
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"cadre.dev/local/internal/imagetest"
)

// An image was unpacked at each start of its CVMs and never ran: the stored settings were longer
// than the bound for reading them.
func TestSettingsThatCannotBeKeptAreRefused(t *testing.T) {
	s := newSite(t)
	// Each line is longer as a member of an object than in the image's list.
	env := make([]string, 450_000)
	for i := range env {
		env[i] = strconv.FormatInt(int64(i), 36)
	}
	img := imagetest.Image(t, v1.Config{Env: env}, imagetest.Archive(t, imagetest.File("x", 0o644, "x")))
	raw, err := img.RawConfigFile()
	if err != nil || len(raw) > maxConfig {
		t.Fatalf("a config of %d bytes is refused for its own size: %v", len(raw), err)
	}
	got, err := s.store(t).Ensure(t.Context(), "cadre-app@"+imagetest.Add(t, s.layout, "cadre-app:1", img))
	if err == nil || !strings.Contains(err.Error(), "settings") {
		t.Errorf("%s, %v, want settings that are refused", got.Root, err)
	}
	s.empty(t)
}
