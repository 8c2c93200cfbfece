package bench

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The load of T6 and T12.
const (
	idlers = 10_000
	cycles = 10_000
)

// BenchmarkT6Idle: resident memory of the real server for each of 10,000
// connections that have said hello and sub, beyond the idle server. Reach: ≤ 6 KB.
func BenchmarkT6Idle(b *testing.B) {
	for b.Loop() {
		p := startProcess(b)
		base := p.settledRSS(b)
		clients := p.connect(b, idlers)
		full := p.settledRSS(b)
		b.ReportMetric(float64(base)/1024, "idle-server-MB")
		b.ReportMetric(float64(full-base)/idlers, "KB/connection")
		for _, c := range clients {
			_ = c.nc.Close()
		}
		p.stop()
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkT12Memory: resident memory of the real server under a silent reader
// in a group of 500 at 200 messages a second, and after 10,000 connects and
// disconnects. Reach: bounded, and back to base within 10 %.
func BenchmarkT12Memory(b *testing.B) {
	for b.Loop() {
		p := startProcess(b)
		p.group(b, "c-group", 500)
		p.connectCycles(b, 2000) // what the runtime needs once is not counted
		base := p.settledRSS(b)
		silent, err := tryDial(p.addr, "dev:u-0001", "silent", true)
		check(b, err)
		peak := p.chatter(b, "c-group", 200, 20*time.Second)
		_ = silent.nc.Close()
		p.connectCycles(b, cycles)
		after := p.settledRSS(b)
		b.ReportMetric(float64(base)/1024, "base-MB")
		b.ReportMetric(float64(peak)/1024, "silent-reader-peak-MB")
		b.ReportMetric(100*(float64(after)/float64(base)-1), "%-over-base-after-cycles")
		p.stop()
	}
	b.ReportMetric(0, "ns/op")
}

// process is the real binary.
type process struct {
	cmd  *exec.Cmd
	addr string
	once sync.Once
}

func startProcess(b *testing.B) *process {
	b.Helper()
	folder := b.TempDir()
	binary := filepath.Join(folder, "impart")
	build := exec.Command("go", "build", "-o", binary, "github.com/impart-im/impart/cmd/impart")
	build.Stderr = os.Stderr
	check(b, build.Run())
	cmd := exec.Command(binary, "serve")
	cmd.Env = append(os.Environ(), "IM_LISTEN=127.0.0.1:0", "IM_STORE=sqlite:"+filepath.Join(folder, "impart.db"), "IM_LOG_LEVEL=warn")
	out, err := cmd.StdoutPipe()
	check(b, err)
	check(b, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	check(b, err)
	p := &process{cmd: cmd, addr: strings.TrimSpace(strings.TrimPrefix(line, "ready http://"))}
	b.Cleanup(p.stop)
	return p
}

func (p *process) stop() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
}

// rss is the resident memory in KB.
func (p *process) rss(b *testing.B) int {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	check(b, err)
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			check(b, err)
			return n
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

// settledRSS waits until resident memory has not sunk for a minute: the server
// gives memory back a while after it has become quiet.
func (p *process) settledRSS(b *testing.B) int {
	b.Helper()
	least, since := p.rss(b), time.Now()
	for time.Since(since) < time.Minute {
		time.Sleep(time.Second)
		if now := p.rss(b); now < least-least/200 {
			least, since = now, time.Now()
		}
	}
	return p.rss(b)
}

// connect opens n connections that say hello and sub and then only answer pings.
func (p *process) connect(b *testing.B, n int) []*client {
	b.Helper()
	clients := make([]*client, n)
	var group sync.WaitGroup
	for part := range 8 {
		group.Go(func() {
			for i := part; i < n; i += 8 {
				c, err := tryDial(p.addr, fmt.Sprintf("dev:u-%05d", i), "d", true)
				if err != nil {
					b.Error(err)
					return
				}
				clients[i] = c
				go func() {
					for {
						if _, err := c.next(); err != nil {
							return
						}
					}
				}()
			}
		})
	}
	group.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return clients
}

func (p *process) connectCycles(b *testing.B, n int) {
	b.Helper()
	var group sync.WaitGroup
	for part := range 8 {
		group.Go(func() {
			for range n / 8 {
				c, err := tryDial(p.addr, fmt.Sprintf("dev:u-%04d", part+2), "d", true)
				if err != nil {
					b.Error(err)
					return
				}
				_ = c.nc.Close()
			}
		})
	}
	group.Wait()
}

func (p *process) admin(b *testing.B, method, path, body string) {
	b.Helper()
	r, err := http.NewRequest(method, "http://"+p.addr+"/admin/v1/"+path, strings.NewReader(body))
	check(b, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	check(b, err)
	text, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode >= 300 {
		b.Fatalf("%s %s: %d %s", method, path, answer.StatusCode, text)
	}
}

func (p *process) group(b *testing.B, conv string, n int) {
	b.Helper()
	var members []string
	for _, u := range users(n) {
		members = append(members, strconv.Quote(string(u)))
	}
	p.admin(b, http.MethodPut, "conversations/"+conv, `{"kind":"group","members":[`+strings.Join(members, ",")+`]}`)
}

// chatter sends at a steady rate and returns the highest resident memory.
func (p *process) chatter(b *testing.B, conv string, perSecond int, span time.Duration) (peak int) {
	b.Helper()
	c, err := tryDial(p.addr, "dev:u-0000", "d", false)
	check(b, err)
	defer c.nc.Close()
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	start := time.Now()
	for i := 0; time.Since(start) < span; i++ {
		<-tick.C
		check(b, c.request(`{"t":"send","rid":"r","conv":"%s","cmid":"m-%d-%d","body":"%s"}`, conv, start.UnixNano(), i, body))
		if i%perSecond == 0 {
			peak = max(peak, p.rss(b))
		}
	}
	return peak
}
