package main

import (
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
)

// newLogger writes structured lines to f.
func newLogger(c *config, f *os.File) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	terminal := isatty.IsTerminal(f.Fd())
	switch {
	case c.LogFormat == "json":
		return slog.New(slog.NewJSONHandler(f, options))
	case c.LogFormat == "auto" && terminal:
		return slog.New(tint.NewTextHandler(f, &tint.Options{Level: c.LogLevel, TimeFormat: "15:04:05.000", NoColor: os.Getenv("NO_COLOR") != ""}))
	default:
		return slog.New(slog.NewTextHandler(f, options))
	}
}
