package genesis

import (
	"strings"
	"testing"

	"cadre.dev/client"
	"cadre.dev/core/appcompose"
	"cadre.dev/platform"
)

// A cluster file without gateway.domain takes the domain of the account's CVMs, and keeps it.
func TestTheGatewayIsAsThePlatformNamesIt(t *testing.T) {
	b := newBench(t)
	b.opts.Cluster.Gateway.Domain = ""
	if _, err := b.create(t); err == nil || !strings.Contains(err.Error(), "gateway.domain is not set") {
		t.Errorf("an account without a CVM: %v", err)
	}
	text, err := appcompose.Render("other", "services: {}", nil)
	if err != nil {
		t.Fatal(err)
	}
	template := platform.Template{AppCompose: text, InstanceType: "tdx.small", OSImage: "dstack-0.5.9"}
	made, err := b.opts.Cloud.Provision(t.Context(), "", template)
	if err == nil {
		_, err = b.opts.Cloud.Create(t.Context(), platform.CreateRequest{Name: "other", Provisioned: made, Template: template})
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one continues
		_, _ = b.create(t)
		got, err := client.LoadContext(b.opts.ContextPath)
		if err != nil || got.Gateway.Domain != "gw.fake.test" {
			t.Errorf("context %+v, %v", got.Gateway, err)
		}
	}
}
