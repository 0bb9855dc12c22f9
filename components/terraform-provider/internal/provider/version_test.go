package provider_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// arrived makes each spec that is applied be rolled out at once.
func arrived(s *clienttest.Server) {
	s.OnApply = func(g *clienttest.Group) {
		g.Status = group.Status{
			Group: g.Spec.Name, ObservedIndex: g.Index, Target: s.RevisionOf(g.Spec), RolloutState: string(operation.Complete),
			Replicas: g.Spec.Replicas, Updated: g.Spec.Replicas, Available: g.Spec.Replicas,
		}
	}
}

// aside is a coordinator in this process, and a context file for it.
func aside(t *testing.T, prepare func(*clienttest.Server)) (s *clienttest.Server, file string) {
	t.Helper()
	s = clienttest.New(t)
	s.RevisionOf = group.Spec.Revision
	prepare(s)
	file = filepath.Join(t.TempDir(), "demo.json")
	if err := s.Start(t).Save(file); err != nil {
		t.Fatal(err)
	}
	return s, file
}

// Coordinators of another version name revisions differently from the provider. Plan and state have
// the coordinators' names, and a new group is neither refused nor made twice.
func TestRevisionsAreNamedByTheCoordinators(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, func(s *clienttest.Server) {
		s.RevisionOf = func(spec group.Spec) string { return "other" + spec.Revision()[:8] }
		arrived(s)
	})
	f := newFolder(t, program).of(file)
	const revision = "\noutput \"revision\" {\n  value = cadre_group.web.revision\n}\n"
	for _, step := range [][2]string{{"one", `+ revision = "other`}, {"two", `-> "other`}} {
		release, planned := step[0], step[1]
		f.write("main.tf", groupOf(release, 1, quick)+revision)
		wants(t, "a plan of "+release, f.must("plan"), planned)
		wants(t, "an apply of "+release, f.must("apply", "-auto-approve"), `revision = "other`)
		wants(t, "nothing to do", f.must("plan"), "No changes")
	}
	// No coordinator answers the plan: the revision is known after the apply.
	s.Fail("PlanRollout", status.Error(codes.NotFound, "no such group"))
	s.Fail("ApplyGroup", status.Error(codes.Unavailable, "no leader"))
	f.write("main.tf", groupOf("three", 1, quick)+revision)
	wants(t, "a plan without coordinators", f.must("plan", "-out=plan.bin"), "It is not known which slots of group web will move", "(known after apply)")
	s.Fail("ApplyGroup", nil)
	wants(t, "its apply", f.must("apply", "plan.bin"), `revision = "other`)
}

// The result of a slot's update decides its revision, not the later answer of a coordinator that
// lags behind.
func TestAnUpdatedSlotIsWhatItsUpdateEndedWith(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, func(s *clienttest.Server) {
		arrived(s)
		leads := s.OnApply
		s.OnApply = func(g *clienttest.Group) {
			leads(g)
			g.Status.Instances = []group.InstanceStatus{{Slot: "web-0", State: client.StateAvailable, Observed: g.Status.Target}}
		}
	})
	f := newFolder(t, program).of(file)
	const one = "\nresource \"cadre_instance\" \"web\" {\n  group    = cadre_group.web.name\n  ordinal  = 0\n  revision = cadre_group.web.revision\n}\n"
	f.write("main.tf", groupOf("one", 1, quick)+one)
	s.Fail("DescribeInstance", status.Error(codes.Internal, "it lags behind"))
	f.must("apply", "-auto-approve")
	s.Fail("DescribeInstance", nil)
	wants(t, "nothing to do", f.must("plan"), "No changes")

	f.write("main.tf", groupOf("one", 1, quick)+"\ndata \"cadre_rollout\" \"wep\" {\n  group = \"wep\"\n}\n")
	out, ok := f.run("plan")
	if wants(t, "no such group", out, "There is no group wep", "cadre group list"); ok {
		t.Error("a group was read that is not there")
	}
}

// Two clients create a group of one name at the same time: the second gets an error, and changes
// nothing.
func TestAGroupThatAppearsDuringAPlanIsNotOverwritten(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, arrived)
	f := newFolder(t, program).of(file)
	f.write("main.tf", groupOf("one", 1, quick))
	f.must("plan", "-out=plan.bin")
	s.Set("web", func(g *clienttest.Group) { g.Spec.Replicas = 7 })
	s.Fail("GetGroup", status.Error(codes.NotFound, "no such group"))
	out, ok := f.run("apply", "plan.bin")
	if wants(t, "a race", out, "Group web exists already", "terraform import"); ok {
		t.Error("it was overwritten")
	}
	s.Set("web", func(g *clienttest.Group) {
		if g.Spec.Replicas != 7 {
			t.Errorf("the group was changed: %+v", g.Spec)
		}
	})
}

// The cluster is made in the same run, so that planning finds no configuration of the
// provider, and no token: groups are planned without the coordinators, which is said, and
// applied; a change of the cluster does not keep the next plan from being made.
func TestAClusterThatIsMadeInTheSameRun(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	_, file := aside(t, arrived)
	known, err := client.LoadContext(file)
	if err != nil {
		t.Fatal(err)
	}
	known.Token = ""
	public, err := json.Marshal(known)
	if err != nil {
		t.Fatal(err)
	}
	f := newFolder(t, program).of(filepath.Join(t.TempDir(), "none"))
	f.write("public.json", string(public))
	config := func(round string) string {
		return `
resource "terraform_data" "cluster" {
  input = {
    context = file("public.json")
    file    = "` + file + `"
    round   = "` + round + `"
  }
}

provider "cadre" {
  alias = "files"
}

ephemeral "cadre_operator_token" "operator" {
  provider = cadre.files
  context  = terraform_data.cluster.output.file
}

provider "cadre" {
  context_json = terraform_data.cluster.output.context
  token        = ephemeral.cadre_operator_token.operator.token
}
` + groupOf("one", 1, quick)
	}
	const late = `
data "cadre_rollout" "web" {
  group      = "web"
  depends_on = [terraform_data.cluster, cadre_group.web]
}
`
	f.write("main.tf", config("one")+late)
	wants(t, "a first plan", f.must("plan", "-out=plan.bin"), "It is not known which slots of group web will move", "not known yet", "cadre_group.web will be created")
	f.must("apply", "plan.bin")
	wants(t, "nothing to do", f.must("plan"), "No changes")
	f.hasNo(clienttest.Token)

	f.write("main.tf", config("two")+late)
	wants(t, "a changed cluster", f.must("plan"), "Group web is not looked at", "1 to change")
	f.must("apply", "-auto-approve")
	wants(t, "nothing to do", f.must("plan"), "No changes")

	f.write("main.tf", strings.Replace(config("three")+late, "  depends_on = [terraform_data.cluster, cadre_group.web]\n", "", 1))
	out, ok := f.run("plan")
	if wants(t, "read too early", out, "No cluster to talk to yet", "depends_on"); ok {
		t.Error("it was read without a cluster")
	}
	if err := os.Remove(filepath.Join(f.path, "public.json")); err != nil {
		t.Error(err)
	}
}
