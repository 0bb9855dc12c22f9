package api

import (
	"testing"
	"time"

	"cadre.dev/attest/attestsim"
	"cadre.dev/local/internal/cloud"
)

// Each size on offer is one whose measurements the trust file can name.
func TestInstanceTypesAreMeasured(t *testing.T) {
	for i, size := range cloud.InstanceTypes {
		if i >= len(attestsim.Shapes) || attestsim.Shapes[i] != (attestsim.Shape{VCPU: size.VCPU, MemoryMB: size.MemoryMB}) {
			t.Errorf("instance type %+v is not among the measured shapes %+v, in order", size, attestsim.Shapes)
		}
	}
}

func TestHardwareReachesTheBoot(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	v := r.create("web-0", "services: {}")
	path := "/cvms/" + v["vm_uuid"].(string)
	r.must(202, "PATCH", path+"/os-image", obj{"os_image_name": ImageSlug("dstack-0.5.9")})
	r.settled("web-0")
	r.must(202, "PATCH", path+"/resources", obj{"instance_type": "tdx.medium"})
	now := r.settled("web-0")
	res := now["resource"].(obj)
	if now["os"].(obj)["name"] != ImageSlug("dstack-0.5.9") || res["instance_type"] != "tdx.medium" || res["vcpu"] != 2.0 || res["memory_in_gb"] != 4.0 || res["disk_in_gb"] != 20.0 {
		t.Errorf("web-0 = %v", now)
	}
	boots := r.hv.Boots("web-0")
	if len(boots) != 3 || boots[0].OSImage != "dstack-0.5.7" || boots[1].OSImage != "dstack-0.5.9" || boots[1].VCPU != 1 || boots[2].VCPU != 2 || boots[2].MemoryMB != 4096 {
		t.Errorf("boots = %+v", boots)
	}
	if got := r.must(202, "PATCH", path+"/resources", obj{"disk_size": 20}); got["status"] != "no_change" {
		t.Errorf("the same size again: %v", got)
	}
	if got := r.must(400, "PATCH", path+"/os-image", obj{"os_image_name": "dstack-0.5.9"}); got["error_code"] != "ERR-02-010" {
		t.Errorf("an image that is not named in full: %v", got)
	}
	r.must(422, "PATCH", path+"/resources", obj{"instance_type": "huge"})
	r.must(422, "PATCH", path+"/resources", obj{"disk_size": 19})
	r.must(422, "PATCH", path+"/os-image", obj{})
	r.must(422, "POST", "/cvms/provision", obj{"name": "web-1", "instance_type": "huge", "compose_file": obj{"docker_compose_file": "services: {}"}})
	if boots := r.hv.Boots("web-0"); len(boots) != 3 {
		t.Errorf("refusals booted it: %+v", boots)
	}
	// A stopped CVM keeps the change for its next start.
	r.must(200, "POST", path+"/shutdown", nil)
	r.settled("web-0")
	r.must(202, "PATCH", path+"/resources", obj{"disk_size": 30})
	if now := r.settled("web-0"); now["status"] != "stopped" || now["resource"].(obj)["disk_in_gb"] != 30.0 {
		t.Errorf("after a change while it was stopped: %v", now)
	}
}

// An accepted change is carried out after a restart of the daemon; until it shows, the CVM reports
// its former hardware.
func TestHiddenChangeSurvivesTheDaemon(t *testing.T) {
	r := newRig(t, cloud.Settings{AcceptLag: cloud.Duration(time.Hour)})
	r.create("web-0", "services: {}")
	r.must(202, "PATCH", "/cvms/web-0/os-image", obj{"os_image_name": ImageSlug("dstack-0.5.9")})
	now := r.must(200, "GET", "/cvms/web-0", nil)
	if now["os"].(obj)["name"] != ImageSlug("dstack-0.5.7") || now["status"] != "running" || now["in_progress"] != false {
		t.Errorf("right after the 202: %v", now)
	}
	r.close()
	r.open(cloud.Settings{})
	if now := r.settled("web-0"); now["os"].(obj)["name"] != ImageSlug("dstack-0.5.9") || now["status"] != "running" {
		t.Errorf("after the daemon's restart: %v", now)
	}
	if boots := r.hv.Boots("web-0"); len(boots) != 2 || boots[1].OSImage != "dstack-0.5.9" {
		t.Errorf("boots = %+v", boots)
	}
}

// A firmware update of the host shows at the next boot of each CVM, and not before.
func TestAFirmwareUpdateShowsAtTheNextBoot(t *testing.T) {
	r := newRig(t, cloud.Settings{})
	v := r.create("web-0", "services: {}")
	r.must(200, "PATCH", "/_local/settings", obj{"host_updated": true})
	if boots := r.hv.Boots("web-0"); len(boots) != 1 || boots[0].HostUpdated {
		t.Fatalf("boots = %+v", boots)
	}
	r.must(200, "POST", "/cvms/"+v["vm_uuid"].(string)+"/restart", obj{})
	r.settled("web-0")
	if boots := r.hv.Boots("web-0"); len(boots) != 2 || !boots[1].HostUpdated {
		t.Errorf("boots = %+v", boots)
	}
}
