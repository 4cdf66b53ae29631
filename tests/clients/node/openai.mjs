// npm openai, as its users write it. BASE_URL (with /v1), MODEL; ONLY=a,b runs the scenarios whose names hold one of
// these texts; TRACE=1 shows stack traces.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import OpenAI from 'openai';
import { zodFunction, zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';

const model = process.env.MODEL || 'openai/gpt-oss-20b';
const client = new OpenAI({ baseURL: process.env.BASE_URL || 'http://127.0.0.1:8000/v1', apiKey: 'none', maxRetries: 0 });
const user = (content) => [{ role: 'user', content }];
const ASK = 'What is the weather in Paris?';
const RECORD = 'Fill in the record. name: Anna, age: 42, colour: green.';
const ANNA = { name: 'Anna', age: 42, colour: 'green' };
const Person = z.object({ name: z.string(), age: z.number().int(), colour: z.enum(['red', 'green', 'blue']) });
const parameters = { type: 'object', properties: { location: { type: 'string' } }, required: ['location'], additionalProperties: false };
const weather = { name: 'get_weather', description: 'Gets the current weather in a city.', parameters };
const tools = [{ type: 'function', function: { ...weather, strict: true } }];
const flatTools = [{ type: 'function', ...weather, strict: true }];
const kindsOf = (events) => new Set(events.map((event) => event.type));

const scenarios = {
  async models() {
    const ids = [];
    for await (const one of client.models.list()) ids.push(one.id);
    assert(ids.includes(model) && ids.includes('rosebud'));
    assert.equal((await client.models.retrieve(model)).id, model); // the package sends the slash as %2F
  },

  async chat() {
    const { data, request_id } = await client.chat.completions
      .create({ model, messages: [{ role: 'developer', content: 'Be brief.' }, ...user('What is 12 + 30?')], temperature: 0,
        reasoning_effort: 'low', max_completion_tokens: 200 })
      .withResponse();
    const { message, finish_reason, index } = data.choices[0];
    assert.deepEqual([message.content, message.role, finish_reason, index], ['12 + 30 = 42', 'assistant', 'stop', 0]);
    assert(message.reasoning && request_id);
    assert.equal(data.usage.total_tokens, data.usage.prompt_tokens + data.usage.completion_tokens);
  },

  async 'chat stream helper'() {
    const stream = client.chat.completions.stream({ model, messages: user('What is 12 + 30?'), temperature: 0,
      stream_options: { include_usage: true } });
    let text = '';
    stream.on('content', (delta) => (text += delta));
    const answer = await stream.finalChatCompletion();
    assert.equal(text, '12 + 30 = 42');
    assert.equal(answer.choices[0].message.content, text);
    assert((await stream.totalUsage()).completion_tokens > 0);
  },

  async 'chat stream, left before its end'() {
    const stream = await client.chat.completions.create({ model, messages: user('Who are you?'), stream: true });
    for await (const chunk of stream) if (chunk.choices.length) break;
    stream.controller.abort();
    assert((await client.chat.completions.create({ model, messages: user('Hi'), max_tokens: 4 })).choices.length === 1);
  },

  async runTools() {
    const asked = [];
    const functions = [{ type: 'function', function: { ...weather, parse: JSON.parse,
      function: async ({ location }) => (asked.push(location), '{"result":4217}') } }];
    const runner = client.chat.completions.runTools({ model, messages: user(ASK), tools: functions, temperature: 0 });
    assert.match(await runner.finalContent(), /4217/);
    assert.deepEqual(asked, ['Paris']);
    assert((await runner.totalUsage()).total_tokens > 0);
  },

  async 'runTools, streamed'() {
    const asked = [];
    const functions = [{ type: 'function', function: { ...weather, parse: JSON.parse,
      function: async ({ location }) => (asked.push(location), { result: 4217 }) } }];
    const runner = client.chat.completions.runTools({ model, stream: true, messages: user(ASK), tools: functions, temperature: 0 });
    assert.match(await runner.finalContent(), /4217/);
    assert.deepEqual(asked, ['Paris']);
  },

  async 'parse, and a tool with a schema'() {
    const answer = await client.chat.completions.parse({ model, messages: user(RECORD), temperature: 0,
      response_format: zodResponseFormat(Person, 'person') });
    assert.deepEqual(answer.choices[0].message.parsed, ANNA);
    const called = await client.chat.completions.parse({ model, messages: user('set the record with name Anna, age 42, colour green'),
      temperature: 0, tools: [zodFunction({ name: 'set_record', parameters: Person })], tool_choice: 'required' });
    Person.parse(called.choices[0].message.tool_calls[0].function.parsed_arguments);
  },

  async responses() {
    const answer = await client.responses.create({ model, input: 'What is 12 + 30?', reasoning: { effort: 'low' }, temperature: 0 });
    assert.equal(answer.output_text, '12 + 30 = 42');
    assert.deepEqual(answer.output.map((item) => item.type), ['reasoning', 'message']);
    assert(answer.usage.total_tokens > 0 && answer.status === 'completed');
    assert.equal((await client.responses.retrieve(answer.id)).output_text ?? answer.output_text, answer.output_text);
  },

  async 'responses.stream tool loop with items passed back'() {
    const input = user(ASK);
    let stream = client.responses.stream({ model, input, tools: flatTools, temperature: 0 });
    const events = [];
    for await (const event of stream) events.push(event);
    const first = await stream.finalResponse();
    const call = first.output.at(-1);
    assert.deepEqual(first.output.map((item) => item.type), ['reasoning', 'function_call']);
    assert.deepEqual(call.parsed_arguments, { location: 'Paris' });
    const kinds = kindsOf(events);
    assert(kinds.has('response.function_call_arguments.delta') && kinds.has('response.reasoning_text.delta'));
    input.push(...first.output, { type: 'function_call_output', call_id: call.call_id, output: '4217' });
    stream = client.responses.stream({ model, input, tools: flatTools, temperature: 0 });
    let text = '';
    stream.on('response.output_text.delta', (event) => (text += event.delta));
    const second = await stream.finalResponse();
    assert.match(second.output_text, /4217/);
    assert.equal(text, second.output_text);
  },

  async 'responses parse'() {
    const format = zodTextFormat(Person, 'person');
    const answer = await client.responses.parse({ model, input: RECORD, temperature: 0, text: { format } });
    assert.deepEqual(answer.output_parsed, ANNA);
    const streamed = await client.responses.stream({ model, input: RECORD, temperature: 0, text: { format } }).finalResponse();
    assert.deepEqual(streamed.output_parsed, ANNA);
  },

  async completions() {
    const answer = await client.completions.create({ model, prompt: ['What is', 'Hello'], max_tokens: 6, temperature: 0 });
    assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1]);
    let text = '';
    for await (const chunk of await client.completions.create({ model, prompt: 'What is', max_tokens: 6, temperature: 0, stream: true })) {
      text += chunk.choices[0]?.text ?? '';
    }
    assert.equal(text, answer.choices[0].text);
  },

  async 'errors are typed'() {
    await assert.rejects(client.chat.completions.create({ model: 'no-such', messages: user('Hi') }), OpenAI.NotFoundError);
    await assert.rejects(client.responses.create({ model, input: 'Hi', max_output_tokens: -1 }), OpenAI.BadRequestError);
  },
};

const { version } = JSON.parse(readFileSync(new URL('./node_modules/openai/package.json', import.meta.url)));
const only = (process.env.ONLY || '').split(',').filter(Boolean);
let failed = 0;
for (const [name, run] of Object.entries(scenarios)) {
  if (only.length && !only.some((text) => name.includes(text))) continue;
  const start = performance.now();
  try {
    await run();
    console.log(`ok    openai (Node) ${version} / ${name} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  openai (Node) ${version} / ${name}: ${error?.name}: ${String(error?.message).replace(/\s+/g, ' ').slice(0, 400)}`);
    if (process.env.TRACE) console.log(error);
  }
}
process.exit(failed ? 1 : 0);
