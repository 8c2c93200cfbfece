package main

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// do makes one request as a user.
func (p *serverProcess) do(t *testing.T, method, path, user, body string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer dev:"+user)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestGatewaysAndLogicNodesShareADatabase(t *testing.T) {
	t.Parallel()
	_, dsn, password := database(t)
	logic := launchRole(t, "logic", []string{"IM_STORE=" + dsn, "IM_LOGIC_LISTEN=127.0.0.1:0", "IM_MAX_BODY=100"})
	edge := []string{"IM_LISTEN_STORE=" + dsn, "IM_LOGIC=" + logic.hop}
	here, there := launchRole(t, "gateway", edge), launchRole(t, "gateway", edge)
	contains(t, "readiness of a logic node", get(t, logic.url+"/readyz?verbose"), `"name":"store","state":"ok"`, `"name":"history","state":"ok"`, "full_page_writes on")
	contains(t, "readiness of a gateway", get(t, here.url+"/readyz?verbose"), `"name":"logic","state":"ok"`, "1 of 1 nodes serve", `"name":"bus","state":"ok"`)
	contains(t, "the log of a gateway whose limit is another", here.log(), "IM_MAX_BODY of a logic node is not this gateway's", "max_body=100", "own=65536")
	contains(t, "the metrics of a logic node", get(t, logic.url+"/metrics"), "im_rpc_clients 2", "im_messages_stored_total 0")
	if status, _ := logic.do(t, "POST", "/api/msg/send", "u-ana", "{}"); status != http.StatusNotFound {
		t.Errorf("a logic node answers to the send API with %d", status)
	}
	if status, answer := here.do(t, "PUT", "/admin/v1/conversations/c-ab", "u-ana", `{"kind":"group","members":["u-ana","u-ben"]}`); status != http.StatusCreated {
		t.Fatalf("%d: %s", status, answer)
	}
	if status, answer := here.do(t, "POST", "/api/msg/send", "u-ana", `{"conv_id":"c-ab","client_msg_id":"m1","text":"hi"}`); status != http.StatusOK {
		t.Fatalf("%d: %s", status, answer)
	}
	_, answer := there.do(t, "POST", "/api/msg/sync", "u-ben", `{"conv":"c-ab","after":0}`)
	contains(t, "what the other gateway reads", answer, `"cmid":"m1"`, `"body":"hi"`)
	contains(t, "the metrics of a gateway", get(t, here.url+"/metrics"), `im_rpc_node_up{node="`+logic.hop+`"} 1`, `im_rpc_calls_total{code="OK",op="send"} 1`)
	// A gateway without logic nodes is not ready, and heals by itself.
	if err := logic.end(syscall.SIGTERM, 0); err != nil {
		t.Error(err)
	}
	eventually(t, "readiness that fails", func() bool {
		return strings.HasPrefix(get(t, here.url+"/readyz"), "not ready\nfail: logic: no logic node answers")
	})
	again := launchRole(t, "logic", []string{"IM_STORE=" + dsn, "IM_LOGIC_LISTEN=" + logic.hop})
	eventually(t, "readiness again", func() bool { return get(t, here.url+"/readyz") == "ready\n" })
	_, answer = here.do(t, "POST", "/api/msg/send", "u-ana", `{"conv_id":"c-ab","client_msg_id":"m1","text":"hi"}`)
	contains(t, "a repeat", answer, `"dup":true`)
	for _, p := range []*serverProcess{here, there, again} {
		if err := p.end(syscall.SIGTERM, 0); err != nil {
			t.Error(err)
		}
		if strings.Contains(p.log(), password) {
			t.Errorf("the log shows the password:\n%s", p.log())
		}
	}
}

// Each of the two is well for itself, and neither hears the other.
func TestAGatewayOnAnotherBusThanItsLogicNodeSaysSo(t *testing.T) {
	t.Parallel()
	_, dsn, _ := database(t)
	server := redisServer(t)
	logic := launchRole(t, "logic", []string{"IM_STORE=" + dsn, "IM_LOGIC_LISTEN=127.0.0.1:0", "IM_REDIS=" + server.URL() + "/0"})
	edge := []string{"IM_LOGIC=" + logic.hop, "IM_REDIS=" + server.URL() + "/3"}
	gateway := launchRole(t, "gateway", edge)
	const other = "is on another bus (redis, database 0) than this gateway (redis, database 3)"
	contains(t, "readiness", get(t, gateway.url+"/readyz?verbose"), `"name":"logic","state":"warn"`, other)
	contains(t, "the log", gateway.log(), "a logic node is on another bus than this gateway")
	_, out := impartCommand(t, edge, "doctor", "--role", "gateway")
	contains(t, "the doctor", out, other)
	alike := launchRole(t, "gateway", []string{"IM_LOGIC=" + logic.hop, "IM_REDIS=" + server.URL()})
	contains(t, "readiness of one on the same bus", get(t, alike.url+"/readyz?verbose"), `"name":"logic","state":"ok"`)
	for _, p := range []*serverProcess{gateway, alike, logic} {
		if err := p.end(syscall.SIGTERM, 0); err != nil {
			t.Error(err)
		}
	}
}
