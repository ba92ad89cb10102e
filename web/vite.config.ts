import { defineConfig } from "vite";

// TRACESMITH names the server that `npm run dev` asks for data.
const server = process.env.TRACESMITH ?? "http://127.0.0.1:8091";

export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: {
    proxy: {
      // The server refuses other sites; here the page comes from one.
      "/api": { target: server, changeOrigin: true, configure: (proxy) => proxy.on("proxyReq", (r) => r.removeHeader("origin")) },
    },
  },
});
