package phala

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"cadre.dev/platform"
)

// The first request of a cluster, field by field like the platform's own clients send it. Against a
// server that drops unknown fields, another name is no error but a CVM with another app id, another
// key service, or in public.
func TestProvisionOnTheWire(t *testing.T) {
	const app = "5de2e4a9d62ef79a9e3f5b4d44a7bcbd94fed708"
	var got map[string]any
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			http.NotFound(w, r)
			return
		}
		got = nil
		dec := json.NewDecoder(r.Body)
		dec.UseNumber()
		if err := dec.Decode(&got); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, `{"app_id":"app_`+app+`","compose_hash":"00"}`)
	})
	tmpl := platform.Template{AppCompose: []byte(envDocument), InstanceType: "tdx.small", OSImage: "dstack-0.5.9-e18f5407", DiskGB: 20, AppID: "app_" + app, AppNonce: "3"}
	// The platform's hash differs; the driver judges only the sent document.
	if _, err := c.Provision(t.Context(), "", tmpl); !errors.Is(err, platform.ErrMeasuresOther) {
		t.Fatal(err)
	}
	delete(got, "compose_file")
	text, err := json.Marshal(got)
	want := `{"app_id":"` + app + `","disk_size":20,"image":"dstack-0.5.9-e18f5407","instance_type":"tdx.small","kms":"PHALA","listed":false,"name":"web","nonce":3}`
	if err != nil || string(text) != want {
		t.Errorf("sent %s, %v\nwant %s", text, err, want)
	}
	tmpl.AppID, tmpl.AppNonce = "", "3"
	if _, err := c.Provision(t.Context(), "", tmpl); !errors.Is(err, platform.ErrMeasuresOther) || got["nonce"] != nil || got["app_id"] != nil {
		t.Errorf("without an app id the nonce %v and the app id %v were sent (%v)", got["nonce"], got["app_id"], err)
	}
	got, tmpl.AppID, tmpl.AppNonce = nil, app, "three"
	if _, err := c.Provision(t.Context(), "", tmpl); !errors.Is(err, platform.ErrRefused) || !strings.Contains(err.Error(), "nonce") || got != nil {
		t.Errorf("a nonce that is no number: %v, sent %v", err, got)
	}
}

// The real server answers a repeated create with the earlier CVM. A CVM of another name is not the
// requested one.
func TestACreateThatReturnsAnotherCVMIsRefused(t *testing.T) {
	const app = "5de2e4a9d62ef79a9e3f5b4d44a7bcbd94fed708"
	name := "web-0"
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"name":"`+name+`","vm_uuid":"0123456789abcdef0123456789abcdef","status":"running"}`)
	})
	req := platform.CreateRequest{Name: "web-0", AppID: app, Template: platform.Template{AppCompose: []byte(envDocument)}}
	if made, err := c.Create(t.Context(), req); err != nil || made.Name != "web-0" {
		t.Errorf("Create = %+v, %v", made, err)
	}
	name = "web-1"
	if made, err := c.Create(t.Context(), req); !errors.Is(err, platform.ErrRefused) || !strings.Contains(err.Error(), "web-1") {
		t.Errorf("Create that was answered with web-1 = %+v, %v", made, err)
	}
}
