// `rose profile` on the CPU: its table, and its line of JSON.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <map>

#include "apps/run_program.h"

namespace rose {
namespace {

ProgramResult RunProfile(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"profile", ROSE_SOURCE_DIR "/models/rosebud", "--device",
                                        "cpu"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunProgram(arguments);
}

// Times are what they are; counts and families follow from the model: six layers, every other one
// with a window.
TEST(Profile, HasEveryOpOfAStep) {
  const ProgramResult result =
      RunProfile({"--users", "2", "--prompt", "20", "--steps", "5", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const boost::json::value json = boost::json::parse(result.out);
  const boost::json::object& profile = json.as_object();
  EXPECT_EQ(profile.at("profile").as_string(), "decode");
  EXPECT_EQ(profile.at("users").as_int64(), 2);
  std::map<std::string, double> counts;
  double shares = 0;
  for (const boost::json::value& op : profile.at("ops").as_array()) {
    const boost::json::object& family = op.as_object();
    counts[std::string(family.at("op").as_string())] = family.at("count").to_number<double>();
    shares += family.at("share").to_number<double>();
    EXPECT_GT(family.at("us").to_number<double>(), 0);
  }
  EXPECT_EQ(counts, (std::map<std::string, double>{{"upload", 1},
                                                   {"embed", 1},
                                                   {"rms_norm", 1},
                                                   {"gemm 768x320", 6},
                                                   {"rope_append_kv", 6},
                                                   {"attention of 128", 3},
                                                   {"attention", 3},
                                                   {"gemm 320x512", 6},
                                                   {"add_rms_norm", 12},
                                                   {"route", 6},
                                                   {"experts_gate_up", 6},
                                                   {"experts_down", 6},
                                                   {"logits", 1}}));
  EXPECT_NEAR(shares, 1, 0.01);
}

TEST(Profile, OfAPromptAsATable) {
  const ProgramResult result = RunProfile({"--prefill", "40", "--steps", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with("rosebud: steps of 40 tokens of a prompt\n")) << result.out;
  EXPECT_NE(result.out.find("\nexperts_gate_up  "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\na step: "), std::string::npos) << result.out;
}

TEST(Profile, MeasuresAsManyPromptsAsItIsAskedFor) {
  for (const char* steps : {"1", "2"}) {
    const ProgramResult result = RunProfile({"--prefill", "3", "--steps", steps, "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("\"steps\": " + std::string(steps)), std::string::npos) << result.out;
  }
}

TEST(Profile, RefusesWhatTheModelHasNoPlacesFor) {
  const ProgramResult result = RunProfile({"--prompt", "1000000", "--steps", "2"});
  EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
}

}  // namespace
}  // namespace rose
