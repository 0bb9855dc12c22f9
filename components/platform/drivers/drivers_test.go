package drivers_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/group"
	"cadre.dev/platform/drivers"
)

func TestNamesAreThoseOfSpecs(t *testing.T) {
	if !slices.Equal(drivers.Names(), group.Platforms()) {
		t.Errorf("drivers %v, specs name %v", drivers.Names(), group.Platforms())
	}
}

func TestTheTextDecides(t *testing.T) {
	const secret = "s3cret-token"
	for _, c := range []struct {
		api, key, driver, problem string
	}{
		{"", "k", group.PlatformPhala, ""},
		{"https://cloud.example/api/v1", "k", group.PlatformPhala, ""},
		{"http://127.0.0.1:1/api/v1", "k", group.PlatformPhala, ""},
		{"https://cloud.example", "", group.PlatformPhala, "api key is empty"},
		{"vmm:a=unix:///run/vmm.sock", "", group.PlatformVMM, ""},
		{"vmm:a@eu=https://a.example:9080,b@us=http://10.0.0.2:9080", secret, group.PlatformVMM, ""},
		{"vmm:", secret, group.PlatformVMM, "endpoints are empty"},
		{"vmm:a=ftp://a.example", secret, group.PlatformVMM, `"a"`},
		{"vmm:a=http://user:" + secret + "@a.example", "", group.PlatformVMM, "credentials"},
		{"ssh://" + secret, "", "", "use https://"},
		{secret, "", "", "use https://"},
	} {
		if got := drivers.Of(c.api); got != c.driver {
			t.Errorf("driver of %q is %q, want %q", c.api, got, c.driver)
		}
		p, err := drivers.Open(drivers.Options{API: c.api, Key: c.key, Settle: time.Minute, CallTimeout: time.Second})
		switch {
		case c.problem == "":
			if err != nil {
				t.Errorf("open %q: %v", c.api, err)
				continue
			}
			if h := p.Habits(); h.Settle != time.Minute || h.StopFirst != (c.driver == group.PlatformVMM) {
				t.Errorf("habits of %q = %+v", c.api, h)
			}
			if _, ok := p.(interface {
				NextAppID(context.Context) (string, string, error)
			}); !ok {
				t.Errorf("the driver of %q allots no app ids", c.api)
			}
		case err == nil || p != nil || !strings.Contains(err.Error(), c.problem):
			t.Errorf("open %q = %v, %v, want a problem with %q", c.api, p, err, c.problem)
		case strings.Contains(err.Error(), secret):
			t.Errorf("the error has the secret: %v", err)
		}
	}
}
