package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"cadre.dev/cli/genesis"
	"cadre.dev/client"
)

// stored is the context of the cluster that is there, and where it is kept.
func (m coordinators) stored() (known client.Context, at string, err error) {
	name := m.Context.ValueString()
	if name == "" {
		name = m.ID.ValueString()
	}
	if at, err = client.Path(name); err == nil {
		known, err = client.LoadContext(at)
	}
	return known, at, err
}

// planProven plans the outputs of an update. They stay as they are, unless the cluster file gives the
// coordinators another content, or names another gateway or platform than the context: then the context
// and its connection change.
func (m coordinators) planProven(ctx context.Context, before coordinators, resp *resource.ModifyPlanResponse) {
	cluster, at, err := m.load(ctx)
	var known client.Context
	if err == nil {
		known, err = client.LoadContext(at)
	}
	if err != nil {
		addError(&resp.Diagnostics, "Context cannot be read", err)
		return
	}
	rendering, err := genesis.Rendering(cluster, known)
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("file"), "Cluster file does not fit its cluster", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("rendering"), rendering)...)
	platform := known.Platform
	platform.Driver, platform.APIURL, platform.APIKeyEnv = cluster.Platform.Driver, cluster.Platform.APIURL, cluster.Platform.APIKeyEnv
	changes := known.Gateway != client.Gateway(cluster.Gateway) || known.Platform != platform || before.upgrades(rendering)
	for name, was := range map[string]types.String{"ca_pem": before.CAPEM, "cluster_id": before.ClusterID, "context_json": before.ContextJSON} {
		if changes {
			was = types.StringUnknown()
		}
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), was)...)
	}
}

// upgrades reports whether another digest is an upgrade of the coordinators. The first apply after an
// import, or by a newer provider, only notes the digest.
func (m coordinators) upgrades(rendering string) bool {
	return !m.Rendering.IsNull() && m.Rendering.ValueString() != rendering
}

// deletable refuses to plan the deletion of coordinators without access to the platform. The groups
// before them would already be gone when the deletion fails.
func (m coordinators) deletable(diags *diag.Diagnostics) {
	known, _, err := m.stored()
	if err != nil {
		return // reading it says why
	}
	if _, _, err := genesis.OpenCloud(known.Platform, ""); err != nil {
		name, way := m.ID.ValueString(), "Let platform.api_key_env of the context file name the environment variable that has it."
		if known.Platform.APIKeyEnv != "" {
			way = "Set the environment variable " + known.Platform.APIKeyEnv + "."
		}
		diags.AddAttributeError(path.Root("platform_api_key"), fmt.Sprintf("Cluster %s cannot be destroyed without its platform's API key", name),
			err.Error()+". platform_api_key is write-only, so that it is not there when the cluster is destroyed. "+way+" Nothing was destroyed.")
	}
}
